// Matrix products on AVX-512: this program's own, since a static program can carry no library that
// has a bfloat16 product, and Debian's OpenBLAS picks slower kernels on CPUs it does not know.
#pragma once

#include <cstddef>

#include "engine/kernels/gemm.h"

namespace paddle::kernels {

// Whether this CPU has what avx512_gemm needs for `compute`.
bool has_avx512_gemm(Compute compute);

// gemm's product where has_avx512_gemm(compute), m, n and k above 0. Every element of C is summed
// in one order that k alone decides.
void avx512_gemm(Compute compute, Transpose transpose_a, Transpose transpose_b, std::size_t m,
                 std::size_t n, std::size_t k, const float* a, const float* b, bool accumulate,
                 float* c, std::size_t stride_c, const Epilogue& epilogue);

}  // namespace paddle::kernels
