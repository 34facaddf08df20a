// Matrix product of row-major float32 matrices.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/result.h"

namespace paddle::kernels {

// Removes a variable that was set for OpenBLAS from the environment, so that programs that are
// started later do not inherit it. Call it before threads start.
void forget_openblas_variables();

enum class Transpose { kNo, kYes };

// Lowest precision of products; the sums are float32.
enum class Compute {
  kFloat32,
  kBfloat16,    // factors rounded to bfloat16 (8 bits of mantissa, to nearest even)
  kBfloat16x3,  // factors as sums of three bfloat16, nearly float32
};

// Code that computes products.
enum class Kernel {
  kFloat32,
  kBfloat16Vectors,  // AVX512-BF16
  kBfloat16Tiles,    // AMX
  kBfloat16x3Tiles,  // AMX
};

bool has_kernel(Kernel kernel);           // on this CPU
std::string_view name_of(Kernel kernel);  // for people

// The kernel of gemm() for this precision: kFloat32, unless another one takes at most 1/1.2 of its
// time on this CPU. Measured once in a process, for about 3 ms. For bfloat16, CPUs have a factor of
// about 1 (Intel), 2 (Zen 4) or 8 (AMX), so every process on the same kind of CPU selects the same
// one.
Kernel kernel_for(Compute compute);

// Makes gemm() use another kernel, for tests and benchmarks. REQUIRES: has_kernel(kernel), and no
// other thread computes products.
void use_kernel(Compute compute, Kernel kernel);

// Whether a row of C has the same bits whatever the number of rows of C, if neither A nor B is
// transposed. False without AVX-512: OpenBLAS, which then computes the products, does not promise
// this.
bool has_independent_rows();

// Last step of a product on C, while a tile of C is in registers.
struct Epilogue {
  const float* bias = nullptr;  // n floats, added to every row
  bool relu = false;            // after the bias
};

// C = op(A) * op(B), or C += when accumulate, with op(A) m x k, op(B) k x n and C m x n, all
// row-major and packed; then the epilogue. If `stride_c` is not 0, rows of C begin that many floats
// apart, and the epilogue must be empty. Fewer than 12 columns are computed in float32. Runs only
// on the calling thread, is thread-safe, and gives the same bits for the same shapes on the same
// kind of CPU.
void gemm(Compute compute, Transpose transpose_a, Transpose transpose_b, std::size_t m,
          std::size_t n, std::size_t k, const float* a, const float* b, bool accumulate, float* c,
          const Epilogue& epilogue = {}, std::size_t stride_c = 0);

// Checks that there is memory for matrix products in several threads, and reserves it for the
// calling thread. With too little, OpenBLAS would retry forever. kResource: there is too little.
Status reserve_products(std::size_t threads);

}  // namespace paddle::kernels
