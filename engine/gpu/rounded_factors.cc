#include "engine/gpu/rounded_factors.h"

#include <algorithm>
#include <utility>

#include "engine/gpu/written_regions.h"
#include "engine/math/card_sums.h"

namespace paddle::nn {

bool is_thin(const op::Gemm& gemm) {
  return gemm.transpose_a == kernels::Transpose::kNo &&
         gemm.transpose_b == kernels::Transpose::kNo && gemm.n <= kernels::device::kThinColumns;
}

std::size_t RoundedFactors::Copy::size(std::size_t run_rows) const {
  const auto extent = [&](std::size_t size) { return size == op::kRows ? run_rows : size; };
  return (pads_rows ? padded(extent(rows)) : extent(rows)) * padded(extent(width));
}

RoundedFactors::RoundedFactors(const Plan& plan) {
  std::vector<bool> is_written;
  const auto factor = [&](std::size_t copy) -> Factor {
    is_written.resize(copies_.size());
    const bool was_written = is_written[copy];
    is_written[copy] = true;
    return {copy, was_written};
  };
  const auto add = [&](const Op& op) {
    if (const auto* gemm = std::get_if<op::Gemm>(&op); gemm != nullptr && !is_thin(*gemm)) {
      const bool a_flipped = gemm->transpose_a == kernels::Transpose::kYes;
      const bool b_flipped = gemm->transpose_b == kernels::Transpose::kYes;
      const Factor a = factor(copy_of(gemm->a, a_flipped ? gemm->k : gemm->m,
                                      a_flipped ? gemm->m : gemm->k, a_flipped));
      const Factor b = factor(copy_of(gemm->b, b_flipped ? gemm->n : gemm->k,
                                      b_flipped ? gemm->k : gemm->n, !b_flipped));
      by_op_.emplace(gemm, Factors{a, b});
    }
    for_each_written(op, [&](const Region& region) {
      for (std::size_t i = 0; i < is_written.size(); ++i) {
        if (copies_[i].from.buffer == region.buffer) is_written[i] = false;
      }
    });
  };
  for (const Op& op : plan.forward) add(op);
  for (const Op& op : plan.backward) add(op);
}

std::size_t RoundedFactors::copy_of(const Region& from, std::size_t rows, std::size_t width,
                                    bool pads_rows) {
  auto found = std::ranges::find_if(copies_, [&](const Copy& copy) {
    return copy.from == from && copy.rows == rows && copy.width == width;
  });
  if (found == copies_.end()) {
    copies_.push_back({from, rows, width, false});
    found = std::prev(copies_.end());
  }
  found->pads_rows = found->pads_rows || pads_rows;
  return static_cast<std::size_t>(found - copies_.begin());
}

}  // namespace paddle::nn
