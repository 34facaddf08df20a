// Matrix products on AVX-512. OpenBLAS has no bfloat16 product in a static program, and Debian's
// build picks slower kernels on CPUs it does not know.
#pragma once

#include <cstddef>

#include "engine/math/gemm.h"

namespace paddle::kernels {

// Whether this CPU has the instructions that avx512_gemm needs for `compute`.
bool has_avx512_gemm(Compute compute);

// Whether a product of n columns would leave most of a tile empty. It is computed in float32.
bool is_narrow(std::size_t n);

// Whether avx512_gemm() is faster than OpenBLAS for a product with these arguments.
bool fits_avx512_gemm(Transpose transpose_a, std::size_t n);

// kernels::gemm for m, n and k above 0. The order of summation of an element of C depends only on n
// and k. REQUIRES: has_avx512_gemm() and fits_avx512_gemm().
void avx512_gemm(Compute compute, Transpose transpose_a, Transpose transpose_b, std::size_t m,
                 std::size_t n, std::size_t k, const float* a, const float* b, bool accumulate,
                 float* c, std::size_t stride_c, const Epilogue& epilogue);

}  // namespace paddle::kernels
