// Sorted lists of ids: which rows of a table a batch touches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"

namespace paddle::nn {

// Ascending, each once.
void sort_unique(std::vector<std::uint64_t>& ids);
// Where an id is that the sorted list holds.
std::size_t row_of(std::span<const std::uint64_t> ids, std::uint64_t id);

// The same for many ids: a hash table of the list, which must stay while it is used.
class RowLookup {
 public:
  // Replaces the list, keeping the memory. Each id once.
  void build(std::span<const std::uint64_t> ids);
  std::size_t operator()(std::uint64_t id) const {
    for (std::size_t at = home(id);; ++at) {
      const std::uint32_t row = rows_[at & (rows_.size() - 1)];
      PADDLE_CHECK(row != kFree);  // the list holds what collect_ids said
      if (ids_[row] == id) return row;
    }
  }

 private:
  static constexpr std::uint32_t kFree = 0xffffffffU;  // a place without a row

  // Multiplicative hashing, Knuth volume 3, 6.4: the upper bits.
  std::size_t home(std::uint64_t id) const { return (id * 0x9e3779b97f4a7c15ULL) >> shift_; }

  std::span<const std::uint64_t> ids_;
  std::vector<std::uint32_t> rows_;  // a power of two, at least four times the ids
  unsigned shift_ = 63;
};

}  // namespace paddle::nn
