// The weighted sum of several ranks' buffers in one fixed order, which gives every rank and every
// transport the bits of a pserver's merge.
#pragma once

#include <cstddef>
#include <span>

namespace paddle::kernels {

// y[i] = 0 + weights[0] * x[0][i] + weights[1] * x[1][i] + ..., from left to right. A buffer of
// weight 0 takes no part, whatever is in it; when one buffer alone takes part with weight 1, y is
// that buffer, bit for bit. y may be one of the buffers.
void weighted_sum(std::size_t count, std::span<const float* const> x,
                  std::span<const float> weights, float* y);

}  // namespace paddle::kernels
