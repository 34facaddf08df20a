#include "engine/nn/ids.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

namespace paddle::nn {
namespace {

constexpr std::size_t kRadixFrom = 512;  // ids; comparison sort is faster for fewer
constexpr unsigned kDigitBits = 11;
constexpr std::size_t kDigits = std::size_t{1} << kDigitBits;

// Radix sort, least significant digit first; skips digits that all ids share.
void radix_sort(std::vector<std::uint64_t>& ids) {
  std::uint64_t varying = 0;
  for (const std::uint64_t id : ids) varying |= id ^ ids.front();
  std::vector<std::uint64_t> sorted(ids.size());
  for (unsigned shift = 0; shift < 64; shift += kDigitBits) {
    if (((varying >> shift) & (kDigits - 1)) == 0) continue;
    std::array<std::size_t, kDigits> starts{};
    for (const std::uint64_t id : ids) ++starts[(id >> shift) & (kDigits - 1)];
    std::size_t next = 0;
    for (std::size_t& start : starts) next += std::exchange(start, next);
    for (const std::uint64_t id : ids) sorted[starts[(id >> shift) & (kDigits - 1)]++] = id;
    ids.swap(sorted);
  }
}

}  // namespace

void sort_unique(std::vector<std::uint64_t>& ids) {
  if (ids.size() < kRadixFrom) {
    std::sort(ids.begin(), ids.end());
  } else {
    radix_sort(ids);
  }
  if (ids.empty()) return;
  // Branchless: a branch would be mispredicted at about every third id.
  std::size_t last = 0;
  std::uint64_t before = ids.front();
  for (const std::uint64_t id : ids) {
    last += static_cast<std::size_t>(id != before);
    ids[last] = before = id;
  }
  ids.resize(last + 1);
}

std::size_t row_of(std::span<const std::uint64_t> ids, std::uint64_t id) {
  PADDLE_CHECK(!ids.empty());
  // Branchless: a branch would be mispredicted half of the time, and without one the CPU overlaps
  // the searches of several ids.
  const std::uint64_t* first = ids.data();
  for (std::size_t left = ids.size(); left > 1;) {
    const std::size_t half = left / 2;
    first += half & (std::size_t{0} - static_cast<std::size_t>(first[half - 1] < id));
    left -= half;
  }
  PADDLE_CHECK(*first == id);  // the list contains every id of collect_ids()
  return static_cast<std::size_t>(first - ids.data());
}

void RowLookup::build(std::span<const std::uint64_t> ids) {
  PADDLE_CHECK(ids.size() < kFree);
  ids_ = ids;
  const std::size_t size = std::bit_ceil(4 * std::max<std::size_t>(ids.size(), 1));
  shift_ = 64U - static_cast<unsigned>(std::countr_zero(size));
  rows_.assign(size, kFree);
  for (std::size_t row = 0; row < ids.size(); ++row) {
    std::size_t at = home(ids[row]);
    while (rows_[at] != kFree) at = (at + 1) & (size - 1);
    rows_[at] = static_cast<std::uint32_t>(row);
  }
}

}  // namespace paddle::nn
