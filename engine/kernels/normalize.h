// Layer normalisation (Ba, Kiros, Hinton 2016, eq. 4) of each example by its own mean and variance.
// Buffers are row-major and packed. The bits are the same on every machine.
#pragma once

#include <cstddef>

namespace paddle::kernels {

// y = (x - mean) * inverse * gain + bias with inverse = 1 / sqrt(variance + epsilon), per row; the
// variance divides by the width. statistics: mean and inverse of each row, 2 x rows values.
void layer_norm(std::size_t rows, std::size_t width, float epsilon, const float* x,
                const float* gain, const float* bias, float* y, float* statistics);
// From gradient = d cost / d y and the forward's x and statistics: x_gradient is written, or added
// to when accumulate; gain_gradient and bias_gradient are added to.
void layer_norm_backward(std::size_t rows, std::size_t width, const float* x, const float* gain,
                         const float* statistics, const float* gradient, bool accumulate,
                         float* x_gradient, float* gain_gradient, float* bias_gradient);

}  // namespace paddle::kernels
