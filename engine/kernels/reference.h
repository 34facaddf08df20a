// The obvious way to compute what the fast kernels compute, in double precision: what tests compare
// with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/kernels/elementwise.h"
#include "engine/kernels/gemm.h"

namespace paddle::kernels::reference {

// Not softmax.
double activate(Activation activation, double x);
std::vector<double> softmax(const std::vector<double>& row);
// Same contract as kernels::gemm.
void gemm(Transpose transpose_a, Transpose transpose_b, std::size_t m, std::size_t n, std::size_t k,
          const double* a, const double* b, bool accumulate, double* c);
// -ln softmax(logits)[label]; gradient, if not null, is resized to the width.
double softmax_cross_entropy(const std::vector<double>& logits, std::size_t label,
                             std::vector<double>* gradient);

}  // namespace paddle::kernels::reference
