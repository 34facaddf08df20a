// Matrix products on the tile units of Intel CPUs (AMX; Sapphire Rapids and later servers), for
// bfloat16. "Intel 64 and IA-32 Architectures Software Developer's Manual", volume 1, chapter 18,
// and TDPBF16PS in volume 2.
#pragma once

#include <cstddef>

#include "engine/math/gemm.h"

namespace paddle::kernels {

// Whether this CPU has tile units for bfloat16, and the system lets this process use them (Linux
// 5.16 or later). Asks the system at the first call.
bool has_tile_gemm();

// kernels::gemm of factors that are rounded to bfloat16, for m, n and k above 0. An element of C is
// a sum over 32 neighbours along k at a time: the even ones and the odd ones are added apart, then
// their sums to each other, and to the element. So its bits depend only on its row of A, its column
// of B and what it is added to. Numbers below 2^-126 count as 0. REQUIRES: has_tile_gemm().
void tile_gemm(Transpose transpose_a, Transpose transpose_b, std::size_t m, std::size_t n,
               std::size_t k, const float* a, const float* b, bool accumulate, float* c,
               std::size_t stride_c, const Epilogue& epilogue);

// As tile_gemm(), with each factor as the sum of three bfloat16, which together have the 24 bits of
// a float. Of the nine products of parts, the six largest are added: what is left out is below
// 2^-24 of the product. A factor that is not finite makes its sums NaN.
void tile_gemm_of_parts(Transpose transpose_a, Transpose transpose_b, std::size_t m, std::size_t n,
                        std::size_t k, const float* a, const float* b, bool accumulate, float* c,
                        std::size_t stride_c, const Epilogue& epilogue);

}  // namespace paddle::kernels
