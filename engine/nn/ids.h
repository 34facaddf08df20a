// Sorted lists of ids: which rows of a table a batch touches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

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
  std::size_t operator()(std::uint64_t id) const;

 private:
  std::span<const std::uint64_t> ids_;
  std::vector<std::uint32_t>
      rows_;  // a power of two, at least twice the ids, half of them free at least
};

}  // namespace paddle::nn
