// Sums of the buffers of several ranks, in float32 and in bfloat16, in one fixed order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace paddle::kernels {

// The weighted sum of several ranks' buffers. Its order is that of a pserver's merge, so every rank
// and every transport gets the same bits:
// y[i] = 0 + weights[0] * x[0][i] + weights[1] * x[1][i] + ..., from left to right. A buffer of
// weight 0 takes no part, whatever it contains; if only one buffer takes part, with weight 1, y is
// that buffer, bit for bit. y may be one of the buffers.
void weighted_sum(std::size_t count, std::span<const float* const> x,
                  std::span<const float> weights, float* y);

// Arrays of bfloat16, the upper half of a float32: 8 bits of mantissa, and the same range. The
// error of a rounding is kept, so that the next rounding can correct it.
//
// Numbers are rounded to the nearest value, to the even one of two equally near. NaN stays NaN, and
// infinity stays infinity; a number that rounds to infinity leaves no error to correct.

using Bf16 = std::uint16_t;  // the bits

// q[i] = weight * x[i] + residual[i], rounded; residual[i] becomes the error of the rounding. With
// weight 0, x takes no part, whatever it contains.
void round_with_residual(std::size_t count, const float* x, float weight, float* residual, Bf16* q);

// q[i] = target[i] - y[i], rounded; then y[i] += q[i]. Repeated calls bring y to the target.
void round_move(std::size_t count, const float* target, float* y, Bf16* q);

// y[i] += q[i]
void add_bf16(std::size_t count, const Bf16* q, float* y);

// y[i] = 0 + x[0][i] + x[1][i] + ..., from left to right, with weight * y[i] in the place of
// x[own][i]. With weight 0 this term is left out.
void sum_bf16(std::size_t count, std::span<const Bf16* const> x, std::size_t own, float weight,
              float* y);

}  // namespace paddle::kernels
