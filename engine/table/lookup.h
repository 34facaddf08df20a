// Lookup of a batch of ids, block by block, and a cache of the results.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/math/row_access.h"
#include "engine/table/row_index.h"

namespace paddle::table {

// Lookup of a block of ids, which go through each step together: the memory of all of them is
// fetched at once. A block is small enough for its lines to fit in the cache.
struct LookupBlock {
  static constexpr std::size_t kIds = 512;

  std::array<std::uint64_t, kIds> hashes;  // set for absent ids at least, and so are homes
  std::array<std::uint64_t, kIds> homes;
  std::array<std::uint32_t, kIds> numbers;  // RowIndex::kNone: absent

  // REQUIRES: at most kIds ids, and the index is not empty.
  void find(const RowIndex& index, std::span<const std::uint64_t> ids);
  // Sets the same from numbers that are known already.
  void recall(const RowIndex& index, std::span<const std::uint64_t> ids,
              const std::uint32_t* known);
};

// Cache of a batch's lookup, from a read to the push of the same ids that follows it. Nearly
// always, no row was created or removed in between.
class LookupCache {
 public:
  // A position in the cached batch, which advances while a push processes it block by block.
  struct Cursor {
    const std::uint32_t* numbers;
    const float* first_values;  // null: not cached
  };

  // A batch's ids, which take 384 KiB with their numbers. More would be too much memory beside a
  // small table.
  static constexpr std::size_t kIdsMax = std::size_t{1} << 15U;
  static constexpr std::size_t kFirstValuesMax = std::size_t{1} << 16U;  // floats

  // Starts the batch; the caller writes the ids' numbers to the result, kNone for absent ones.
  std::uint32_t* start(std::uint64_t index_version, std::span<const std::uint64_t> ids) {
    index_version_ = index_version;
    ids_.assign(ids.begin(), ids.end());
    numbers_.resize(ids.size());
    first_values_.clear();
    return numbers_.data();
  }
  // Stores the values that absent ids were read as, unless they are too many. `values` has the
  // values of all ids.
  void keep_first_values(std::span<const float> values, std::size_t width) {
    const auto absent = std::ranges::count(numbers_, RowIndex::kNone);
    const std::size_t floats = static_cast<std::size_t>(absent) * width;
    if (floats > kFirstValuesMax) return;
    first_values_.resize(floats);
    float* to = first_values_.data();
    for (std::size_t i = 0; i < numbers_.size(); ++i) {
      if (numbers_[i] != RowIndex::kNone) continue;
      copy_row(values.data() + i * width, width, to);
      to += width;
    }
  }
  // Whether the cache is valid for a push of these ids.
  bool is_of(std::uint64_t index_version, std::span<const std::uint64_t> ids) const {
    return index_version == index_version_ && std::ranges::equal(ids, ids_);
  }
  Cursor cursor() const {
    return {numbers_.data(), first_values_.empty() ? nullptr : first_values_.data()};
  }
  std::uint64_t bytes() const {  // memory in use
    return ids_.capacity() * sizeof(std::uint64_t) + numbers_.capacity() * sizeof(std::uint32_t) +
           first_values_.capacity() * sizeof(float);
  }

 private:
  std::uint64_t index_version_ = 0;
  std::vector<std::uint64_t> ids_;
  std::vector<std::uint32_t> numbers_;
  std::vector<float> first_values_;  // values of absent ids
};

}  // namespace paddle::table
