// Matrix products on AVX-512. OpenBLAS has no bfloat16 product in a static program, and Debian's
// build picks slower kernels on CPUs it does not know.
#pragma once

#include <cstddef>

#include "engine/kernels/gemm.h"

namespace paddle::kernels {

// Whether this CPU has the instructions that avx512_gemm needs for `compute`.
bool has_avx512_gemm(Compute compute);

// Whether it is faster for such a product than OpenBLAS is.
bool fits_avx512_gemm(Transpose transpose_a, std::size_t n);

// kernels::gemm for m, n and k above 0. Requires has_avx512_gemm(compute) and fits_avx512_gemm().
// The order of summation of an element of C depends on n and k alone.
void avx512_gemm(Compute compute, Transpose transpose_a, Transpose transpose_b, std::size_t m,
                 std::size_t n, std::size_t k, const float* a, const float* b, bool accumulate,
                 float* c, std::size_t stride_c, const Epilogue& epilogue);

}  // namespace paddle::kernels
