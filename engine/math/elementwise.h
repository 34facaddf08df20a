// Sums and products of buffers, element by element. Buffers are row-major and packed. No function
// allocates, and each gives the same bits on every machine, however the elements are divided among
// calls.
#pragma once

#include <cstddef>
#include <cstdint>

namespace paddle::kernels {

// y[i] += x[i]
void add(std::size_t count, const float* x, float* y);
// y[i] *= x[i]
void multiply_by(std::size_t count, const float* x, float* y);
// y[i] = x[i] * scale[i], or += when accumulate.
void multiply(std::size_t count, const float* x, const float* scale, bool accumulate, float* y);
// y[r][c] += bias[c]
void add_bias(std::size_t rows, std::size_t width, const float* bias, float* y);
// sum[c] = beta * sum[c] + total over rows of x[r][c], in row order; sum is not read when beta is
// 0.
void column_sum(std::size_t rows, std::size_t width, const float* x, float beta, float* sum);
// mask[i] = 0 with probability rate, else 1 / (1 - rate); a function of `stream` and i only.
void dropout_mask(std::uint64_t stream, float rate, std::size_t count, float* mask);

}  // namespace paddle::kernels
