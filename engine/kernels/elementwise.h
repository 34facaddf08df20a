// Activations and the row-wise additions around a matrix product. All buffers are row-major and
// packed. No function allocates; each gives the same bits on every machine and for every way to
// call it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace paddle::kernels {

enum class Activation { kIdentity, kSigmoid, kRelu, kTanh, kSoftmax };

// y[r][c] = f(y[r][c] + bias[c]); bias may be null. Softmax is over the row. Absolute error of
// sigmoid, tanh and softmax: under 3e-7.
void bias_activate(Activation activation, std::size_t rows, std::size_t width, const float* bias,
                   float* y);
// Turns d cost / d f(x) into d cost / d x, from y = f(x); then takes the column_sum of that, where
// sum is not null.
void activation_backward(Activation activation, std::size_t rows, std::size_t width, const float* y,
                         float* gradient, float beta = 0, float* sum = nullptr);
// sum[c] = beta * sum[c] + total over rows of x[r][c], in row order; sum is not read when beta is
// 0.
void column_sum(std::size_t rows, std::size_t width, const float* x, float beta, float* sum);
// y[i] += x[i]
void add(std::size_t count, const float* x, float* y);
// y[i] *= x[i]
void multiply_by(std::size_t count, const float* x, float* y);
// y[i] = x[i] * scale[i], or += when accumulate.
void multiply(std::size_t count, const float* x, const float* scale, bool accumulate, float* y);
// mask[i] = 1 / (1 - rate) or 0, from stream alone: unit i is dropped with probability rate.
void dropout_mask(std::uint64_t stream, float rate, std::size_t count, float* mask);

}  // namespace paddle::kernels
