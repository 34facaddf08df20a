// Sorted lists of the ids of a table that a batch reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"

namespace paddle::nn {

// Sorts in ascending order and removes repeats.
void sort_unique(std::vector<std::uint64_t>& ids);
// Index of `id` in `ids`. REQUIRES: `ids` is sorted and contains `id`.
std::size_t row_of(std::span<const std::uint64_t> ids, std::uint64_t id);

// Hash table from the ids of a list to their indexes. The list must outlive the table.
class RowLookup {
 public:
  // Builds the table for another list, in the memory it has. REQUIRES: no id repeats.
  void build(std::span<const std::uint64_t> ids);
  std::size_t operator()(std::uint64_t id) const {
    for (std::size_t at = home(id);; ++at) {
      const std::uint32_t row = rows_[at & (rows_.size() - 1)];
      PADDLE_CHECK(row != kFree);  // the list contains every id of collect_ids()
      if (ids_[row] == id) return row;
    }
  }

 private:
  static constexpr std::uint32_t kFree = 0xffffffffU;  // an empty slot

  // Multiplicative hashing (Knuth, volume 3, 6.4) takes the upper bits.
  std::size_t home(std::uint64_t id) const { return (id * 0x9e3779b97f4a7c15ULL) >> shift_; }

  std::span<const std::uint64_t> ids_;
  std::vector<std::uint32_t> rows_;  // their number is a power of two, at least 4 * ids_.size()
  unsigned shift_ = 63;
};

}  // namespace paddle::nn
