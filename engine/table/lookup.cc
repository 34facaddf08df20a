#include "engine/table/lookup.h"

namespace paddle::table {

// All ids go through each step together, which is faster than id by id: a mispredicted branch in
// one step throws away no work of the other steps.
void LookupBlock::find(const RowIndex& index, std::span<const std::uint64_t> ids) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    hashes[i] = RowIndex::hash_of(ids[i]);
    homes[i] = index.home(hashes[i]);
  }
  for (std::size_t i = 0; i < ids.size(); ++i) index.load_home(homes[i]);
  std::array<std::uint16_t, kIds> overflowed;  // ids that do not lie in their home
  std::size_t count = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    numbers[i] = index.find_home(homes[i], hashes[i]);
    overflowed[count] = static_cast<std::uint16_t>(i);
    count += static_cast<std::size_t>(numbers[i] == RowIndex::kNone) &
             static_cast<std::size_t>(index.overflows(homes[i]));
  }
  for (std::size_t i = 0; i < count; ++i) index.load_overflow(homes[overflowed[i]]);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = overflowed[i];
    numbers[at] = index.find_overflow(homes[at], hashes[at]);
  }
}

void LookupBlock::recall(const RowIndex& index, std::span<const std::uint64_t> ids,
                         const std::uint32_t* known) {
  std::copy_n(known, ids.size(), numbers.begin());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (numbers[i] != RowIndex::kNone) continue;
    hashes[i] = RowIndex::hash_of(ids[i]);
    homes[i] = index.home(hashes[i]);
  }
}

}  // namespace paddle::table
