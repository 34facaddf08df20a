// Products between vectors of one example, for factorisation machines and cosines. The bits are the
// same on every machine.
#pragma once

#include <cstddef>

#include "engine/kernels/row_formulas.h"

namespace paddle::kernels {

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
// slope * d cosine / d a; zero where a vector is zero. Written, or added when accumulate.
void cosine_backward(std::size_t width, const Cosine& of, float slope, const float* a,
                     const float* b, bool accumulate, float* a_gradient);

float dot(std::size_t width, const float* a, const float* b);
// y[i] += scale * x[i]
void add_scaled(std::size_t width, float scale, const float* x, float* y);

}  // namespace paddle::kernels
