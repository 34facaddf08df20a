#include "engine/gpu/occurrences.h"

#include <algorithm>

#include "base/check.h"
#include "engine/math/rows.h"

namespace paddle::nn {
namespace {

// Counting sort, which keeps the order of equal rows. visit_all(visit) calls visit(occurrence, row)
// in the order of additions.
template <class VisitAll>
void sort_by_row(VisitAll visit_all, std::span<std::uint32_t> starts, std::uint32_t* order) {
  const std::size_t rows = starts.size() - 1;
  std::ranges::fill(starts, 0);
  visit_all([&](std::size_t, std::uint32_t row) {
    if (row == kernels::kNoRow) return;
    PADDLE_CHECK(row < rows);
    ++starts[row + 1];
  });
  // Here starts[r + 1] becomes the first place of row r in `order`. The last step advances it for
  // each occurrence, until it is the place after the row's last one.
  std::uint32_t before = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::uint32_t count = starts[row + 1];
    starts[row + 1] = before;
    before += count;
  }
  visit_all([&](std::size_t occurrence, std::uint32_t row) {
    if (row == kernels::kNoRow) return;
    order[starts[row + 1]++] = static_cast<std::uint32_t>(occurrence);
  });
}

}  // namespace

void list_occurrences(std::span<const std::uint32_t> indices, EachIndex in_turn,
                      std::span<std::uint32_t> starts, std::uint32_t* order) {
  const std::size_t count = indices.size() / in_turn.step;
  sort_by_row(
      [&](auto visit) {
        for (std::size_t i = 0; i < count; ++i) visit(i, indices[i * in_turn.step + in_turn.first]);
      },
      starts, order);
}

void list_occurrences(std::span<const std::uint32_t> indices, GroupedIndices grouped,
                      std::span<std::uint32_t> starts, std::uint32_t* order) {
  sort_by_row(
      [&](auto visit) {
        for (std::size_t first = 0; first < grouped.columns; first += grouped.group) {
          for (std::size_t line = 0; line < indices.size(); line += grouped.columns) {
            const std::size_t begin = line + first;
            for (std::size_t i = begin; i < begin + grouped.group; ++i) visit(i, indices[i]);
          }
        }
      },
      starts, order);
}

}  // namespace paddle::nn
