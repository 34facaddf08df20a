#include "engine/kernels/gemm.h"

#include <cblas.h>

#include <algorithm>
#include <limits>

#include "engine/base/check.h"

namespace paddle::kernels {
namespace {

blasint blas_size(std::size_t value) {
  PADDLE_CHECK(value <= static_cast<std::size_t>(std::numeric_limits<int>::max()));
  return static_cast<blasint>(value);
}

void scale(std::size_t count, float beta, float* c) {
  if (beta == 0.0F) {
    std::fill_n(c, count, 0.0F);
  } else if (beta != 1.0F) {
    std::transform(c, c + count, c, [beta](float value) { return beta * value; });
  }
}

}  // namespace

void gemm(Transpose transpose_a, Transpose transpose_b, std::size_t m, std::size_t n, std::size_t k,
          float alpha, const float* a, const float* b, float beta, float* c) {
  if (m == 0 || n == 0) return;
  if (k == 0) return scale(m * n, beta, c);
  const bool a_flipped = transpose_a == Transpose::kYes;
  const bool b_flipped = transpose_b == Transpose::kYes;
  cblas_sgemm(CblasRowMajor, a_flipped ? CblasTrans : CblasNoTrans,
              b_flipped ? CblasTrans : CblasNoTrans, blas_size(m), blas_size(n), blas_size(k),
              alpha, a, blas_size(a_flipped ? m : k), b, blas_size(b_flipped ? k : n), beta, c,
              blas_size(n));
}

}  // namespace paddle::kernels
