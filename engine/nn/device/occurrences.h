// Occurrences of the rows of a table among the indices of an input, in the order in which the
// gradients of a row are added up: the arrays of kernels::device::Occurrences.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace paddle::nn {

// Occurrence i has the index indices[i * step + first], and they are in the order of i: the rows of
// op::Gather without weights and of op::Pool, and the candidates of op::SampledCost.
struct EachIndex {
  std::size_t first = 0;
  std::size_t step = 1;
};
// Occurrence i has indices[i], of rows of `columns`; the order is that of op::GatherBackward with
// weights, by groups of columns.
struct GroupedIndices {
  std::size_t columns = 1;
  std::size_t group = 1;  // divides columns
};

// Writes `starts`, one for each row of the table and the end, and `order`, with room for all
// occurrences. kNoRow is no occurrence.
void list_occurrences(std::span<const std::uint32_t> indices, EachIndex in_turn,
                      std::span<std::uint32_t> starts, std::uint32_t* order);
void list_occurrences(std::span<const std::uint32_t> indices, GroupedIndices grouped,
                      std::span<std::uint32_t> starts, std::uint32_t* order);

}  // namespace paddle::nn
