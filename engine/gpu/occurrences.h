// Occurrences of the rows of a table among the indices of an input, in the order in which the
// gradients of a row are added up: the arrays of kernels::device::Occurrences.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/pool.h"

namespace paddle::nn {

// Occurrence i has the index indices[i * step + first]. Occurrences are in the order of i. Used for
// the rows of op::Gather without weights and of op::Pool, and for the candidates of
// op::SampledCost.
struct EachIndex {
  std::size_t first = 0;
  std::size_t step = 1;
};
// Occurrence i has the index indices[i]; each row of the run has `columns` indices. Occurrences are
// in the order of op::GatherBackward with weights: from group to group of `group` columns.
struct GroupedIndices {
  std::size_t columns = 1;
  std::size_t group = 1;  // divides columns
};

// Memory of list_occurrences() that is kept from batch to batch.
struct OccurrenceMemory {
  std::vector<std::uint32_t> packed;
  std::vector<std::uint32_t> places;
};

// Writes `starts` (one for each row of the table, then the end) and `order`, which must have room
// for all occurrences. kNoRow does not count as an occurrence. The threads of the team share the
// work of a large batch; null: the calling thread works alone. The result does not depend on the
// team.
void list_occurrences(std::span<const std::uint32_t> indices, EachIndex in_turn,
                      std::span<std::uint32_t> starts, std::uint32_t* order,
                      OccurrenceMemory& memory, ThreadTeam* team);
void list_occurrences(std::span<const std::uint32_t> indices, GroupedIndices grouped,
                      std::span<std::uint32_t> starts, std::uint32_t* order,
                      OccurrenceMemory& memory, ThreadTeam* team);

// Replaces each index i of those that EachIndex names by numbers[i], and leaves kNoRow.
void renumber(std::span<std::uint32_t> indices, EachIndex in_turn,
              std::span<const std::uint32_t> numbers, ThreadTeam* team);

}  // namespace paddle::nn
