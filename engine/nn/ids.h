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
// Index of an id in a sorted list that has it.
std::size_t row_of(std::span<const std::uint64_t> ids, std::uint64_t id);

// Hash table from ids to their indexes in a list, which must outlive it.
class RowLookup {
 public:
  // Replaces the list and keeps the memory. Ids are unique.
  void build(std::span<const std::uint64_t> ids);
  std::size_t operator()(std::uint64_t id) const {
    for (std::size_t at = home(id);; ++at) {
      const std::uint32_t row = rows_[at & (rows_.size() - 1)];
      PADDLE_CHECK(row != kFree);  // the list has every id of collect_ids
      if (ids_[row] == id) return row;
    }
  }

 private:
  static constexpr std::uint32_t kFree = 0xffffffffU;  // an empty slot

  // Multiplicative hashing (Knuth, volume 3, 6.4) takes the upper bits.
  std::size_t home(std::uint64_t id) const { return (id * 0x9e3779b97f4a7c15ULL) >> shift_; }

  std::span<const std::uint64_t> ids_;
  std::vector<std::uint32_t> rows_;  // a power of two, at least four times the number of ids
  unsigned shift_ = 63;
};

}  // namespace paddle::nn
