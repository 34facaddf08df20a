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

}  // namespace paddle::nn
