// Operations on the vectors of one example: layer normalisation, and products between vectors for
// factorisation machines and cosines. Buffers are row-major and packed. The bits are the same on
// every machine.
#pragma once

#include <cstddef>

#include "engine/math/formulas.h"

namespace paddle::kernels {

// Layer normalisation (Ba, Kiros, Hinton 2016, eq. 4) of each example by its own mean and variance.
// y = (x - mean) * inverse * gain + bias with inverse = 1 / sqrt(variance + epsilon), per row; the
// variance divides by the width. statistics: mean and inverse of each row, 2 x rows values.
void layer_norm(std::size_t rows, std::size_t width, float epsilon, const float* x,
                const float* gain, const float* bias, float* y, float* statistics);
// Computes the gradients from gradient = d cost / d y and the forward's x and statistics. Writes
// x_gradient, or adds to it when accumulate; adds to gain_gradient and bias_gradient.
void layer_norm_backward(std::size_t rows, std::size_t width, const float* x, const float* gain,
                         const float* statistics, const float* gradient, bool accumulate,
                         float* x_gradient, float* gain_gradient, float* bias_gradient);

// Products between vectors.

// Adds `fields` vectors of `factors` values, side by side in v, to sums, and their squares to
// squares.
void add_fields(std::size_t fields, std::size_t factors, const float* v, float* sums,
                float* squares);
// The second-order term of a factorisation machine (Rendle 2010, lemma 3.1): the sum over pairs of
// fields of their inner product = 1/2 sum_c (sums[c]^2 - squares[c]).
float pair_sum(std::size_t factors, const float* sums, const float* squares);
// d pair_sum / d v = sums - v, times slope; written to v_gradient, or added when accumulate.
void pair_sum_backward(std::size_t fields, std::size_t factors, const float* v, const float* sums,
                       float slope, bool accumulate, float* v_gradient);

Cosine cosine(std::size_t width, const float* a, const float* b);
// slope * d cosine / d a; zero where a vector is zero. Written to a_gradient, or added when
// accumulate.
void cosine_backward(std::size_t width, const Cosine& of, float slope, const float* a,
                     const float* b, bool accumulate, float* a_gradient);

// Sums as lane_sum() does.
float dot(std::size_t width, const float* a, const float* b);
// out[i] = x . row rows[i * stride] of the table, or 0 where that is kNoRow; the bits are those of
// dot().
void dots(std::size_t width, const float* x, const float* table, std::size_t count,
          const std::uint32_t* rows, std::size_t stride, float* out);
// Adds to the gradients of x and of the table what dots() with these slopes gives.
void dots_backward(std::size_t width, const float* x, const float* table, std::size_t count,
                   const std::uint32_t* rows, std::size_t stride, const float* slopes,
                   float* x_gradient, float* table_gradient);

}  // namespace paddle::kernels
