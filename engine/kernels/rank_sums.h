// Sums of the buffers of several ranks, in float32 and in bfloat16, in one fixed order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace paddle::kernels {

// The weighted sum of several ranks' buffers; its order gives every rank and every transport the
// bits of a pserver's merge:
// y[i] = 0 + weights[0] * x[0][i] + weights[1] * x[1][i] + ..., from left to right. A buffer of
// weight 0 takes no part, whatever is in it; when one buffer alone takes part with weight 1, y is
// that buffer, bit for bit. y may be one of the buffers.
void weighted_sum(std::size_t count, std::span<const float* const> x,
                  std::span<const float> weights, float* y);

// Arrays of bfloat16, the upper half of a float32: 8 bits of mantissa, and the same range. What one
// rounding leaves out is kept, so that the next one can make up for it.
//
// Numbers are rounded to nearest, to even where two are as near. NaN stays NaN, and infinity
// infinity; a number that rounds to infinity leaves nothing to make up for.

using Bf16 = std::uint16_t;  // the bits

// q[i] = weight * x[i] + residual[i], rounded; residual[i] becomes what was left out. With weight 0
// x takes no part, whatever is in it.
void round_with_residual(std::size_t count, const float* x, float weight, float* residual, Bf16* q);

// q[i] = target[i] - y[i], rounded; y[i] moves by q[i]. Repeated, y comes to the target.
void round_move(std::size_t count, const float* target, float* y, Bf16* q);

// y[i] += q[i]
void add_bf16(std::size_t count, const Bf16* q, float* y);

// y[i] = 0 + x[0][i] + x[1][i] + ..., from left to right, where in the place of x[own] is
// weight * y[i]. With weight 0 that takes no part.
void sum_bf16(std::size_t count, std::span<const Bf16* const> x, std::size_t own, float weight,
              float* y);

}  // namespace paddle::kernels
