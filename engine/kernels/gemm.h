// Matrix product of row-major float32 matrices.
#pragma once

#include <cstddef>

#include "base/result.h"

namespace paddle::kernels {

enum class Transpose { kNo, kYes };

// Precision of products. kBfloat16 rounds both factors to bfloat16 (8 bits of mantissa, to nearest
// even) and adds in float32.
enum class Compute { kFloat32, kBfloat16 };

// Whether this CPU can; float32 always works.
bool can_compute(Compute compute);

// Whether a row of C has the same bits in a product of any number of rows, where neither A nor B is
// transposed. Without AVX-512 the products are OpenBLAS's, which do not promise it.
bool has_independent_rows();

// Last step on C, while its tile is in registers.
struct Epilogue {
  const float* bias = nullptr;  // n floats, added to every row
  bool relu = false;            // after the bias
};

// C = op(A) * op(B), or C += when accumulate, with op(A) m x k, op(B) k x n and C m x n, all
// row-major and packed; then the epilogue. With `stride_c`, rows of C are that many floats apart,
// and there is no epilogue. Requires can_compute(compute). Runs on the calling thread alone, is
// thread-safe, and gives the same bits for the same shapes on the same kind of CPU.
void gemm(Compute compute, Transpose transpose_a, Transpose transpose_b, std::size_t m,
          std::size_t n, std::size_t k, const float* a, const float* b, bool accumulate, float* c,
          const Epilogue& epilogue = {}, std::size_t stride_c = 0);

// Makes sure of the memory for matrix products of several threads: where there is too little,
// OpenBLAS would try again for ever. kResource.
Status reserve_products(std::size_t threads);

}  // namespace paddle::kernels
