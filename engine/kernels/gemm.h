// Row-major single-precision matrix product.
#pragma once

#include <cstddef>

namespace paddle::kernels {

enum class Transpose { kNo, kYes };

// C = alpha * op(A) * op(B) + beta * C, with op(A) m x k, op(B) k x n and C m x n, all row-major
// and packed (a row follows the last one). C is not read when beta is 0. Runs on the calling thread
// alone, may be called from any number of threads, and gives the same bits for the same shapes on
// the same machine.
void gemm(Transpose transpose_a, Transpose transpose_b, std::size_t m, std::size_t n, std::size_t k,
          float alpha, const float* a, const float* b, float beta, float* c);

}  // namespace paddle::kernels
