// Row-major matrix product of float32 matrices.
#pragma once

#include <cstddef>

namespace paddle::kernels {

enum class Transpose { kNo, kYes };

// How products are formed. kBfloat16 rounds both factors to bfloat16 (8 bits of mantissa, to
// nearest even) and adds in float32.
enum class Compute { kFloat32, kBfloat16 };

// Whether gemm can do it on this CPU; float32 it always can.
bool can_compute(Compute compute);

// What becomes of C at last, while it is in registers.
struct Epilogue {
  const float* bias = nullptr;  // n floats, added to every row
  bool relu = false;            // then what is below 0 becomes 0
};

// C = op(A) * op(B), or C += when accumulate, with op(A) m x k, op(B) k x n and C m x n, all
// row-major and packed (a row follows the last one); then the epilogue. Rows of C may be further
// apart: `stride_c` floats from one to the next, and no epilogue. Needs can_compute(compute).
// Runs on the calling thread alone, may be called from any number of threads, and gives the same
// bits for the same shapes on the same kind of CPU.
void gemm(Compute compute, Transpose transpose_a, Transpose transpose_b, std::size_t m,
          std::size_t n, std::size_t k, const float* a, const float* b, bool accumulate, float* c,
          const Epilogue& epilogue = {}, std::size_t stride_c = 0);

}  // namespace paddle::kernels
