#include "engine/math/gemm.h"

#include <cblas.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>

#include "base/check.h"
#include "engine/math/activation.h"
#include "engine/math/avx512_gemm.h"

namespace paddle::kernels {
namespace {

constexpr const char* kKernelsVariable = "OPENBLAS_CORETYPE";
constexpr std::size_t kBlasBufferBytes = 128U << 20U;  // for each thread, at its first product

bool has_room(std::size_t bytes) {
  void* const place = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return false;
  ::munmap(place, bytes);
  return true;
}

// OpenBLAS's name of the kernels for this CPU; null: it chooses.
const char* openblas_kernels() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    return "SkylakeX";
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "Haswell";
#endif
  return nullptr;
}

bool has_set_kernels = false;

// Two variables are read by OpenBLAS's constructor, so they must be set before it runs.
//   - OPENBLAS_NUM_THREADS: OpenBLAS is built with threads, because its build without threads gives
//     two callers the same buffer. It must not start any.
//   - OPENBLAS_CORETYPE: OpenBLAS knows CPUs by their model, and uses its oldest kernels on a CPU
//     that is newer than itself (0.3.21 does on Intel's Emerald Rapids). A user's value stays.
// The constructor of OpenBLAS 0.3.29 also allocates its first buffer, and retries forever if there
// is no room for it (OpenBLAS issue 5289).
constexpr int kBeforeOpenBlas = 101;
[[gnu::constructor(kBeforeOpenBlas)]] void prepare_openblas() {
  ::setenv("OPENBLAS_NUM_THREADS", "1", 1);
  const char* const kernels = openblas_kernels();
  if (kernels != nullptr && std::getenv(kKernelsVariable) == nullptr) {
    has_set_kernels = ::setenv(kKernelsVariable, kernels, 1) == 0;
  }
  if (has_room(kBlasBufferBytes + (1U << 20U))) return;
  constexpr std::string_view kNoRoom =
      "paddle: not enough address space for matrix products: 129 MiB\nhint: raise the limit of "
      "address space (ulimit -v)\n";
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, kNoRoom.data(), kNoRoom.size());
  ::_exit(static_cast<int>(Errc::kResource));
}

blasint blas_size(std::size_t value) {
  PADDLE_CHECK(value <= static_cast<std::size_t>(std::numeric_limits<int>::max()));
  return static_cast<blasint>(value);
}

}  // namespace

void forget_openblas_variables() {
  if (has_set_kernels) ::unsetenv(kKernelsVariable);
}

bool can_compute(Compute compute) {
  return compute == Compute::kFloat32 || has_avx512_gemm(compute);
}

bool has_independent_rows() {
  return has_avx512_gemm(Compute::kFloat32);
}

void gemm(Compute compute, Transpose transpose_a, Transpose transpose_b, std::size_t m,
          std::size_t n, std::size_t k, const float* a, const float* b, bool accumulate, float* c,
          const Epilogue& epilogue, std::size_t stride_c) {
  static const bool has_own = has_avx512_gemm(Compute::kFloat32);
  PADDLE_CHECK(compute == Compute::kFloat32 || can_compute(compute));
  PADDLE_CHECK(stride_c == 0 || (stride_c >= n && epilogue.bias == nullptr && !epilogue.relu));
  if (m == 0 || n == 0) return;
  const std::size_t stride = stride_c == 0 ? n : stride_c;
  if (has_own && k > 0 && fits_avx512_gemm(transpose_a, n)) {
    avx512_gemm(compute, transpose_a, transpose_b, m, n, k, a, b, accumulate, c, stride, epilogue);
    return;
  }
  for (std::size_t row = 0; k == 0 && !accumulate && row < m; ++row) {
    std::fill_n(c + row * stride, n, 0.0F);
  }
  const bool a_flipped = transpose_a == Transpose::kYes;
  const bool b_flipped = transpose_b == Transpose::kYes;
  if (k > 0) {
    cblas_sgemm(CblasRowMajor, a_flipped ? CblasTrans : CblasNoTrans,
                b_flipped ? CblasTrans : CblasNoTrans, blas_size(m), blas_size(n), blas_size(k),
                1.0F, a, blas_size(a_flipped ? m : k), b, blas_size(b_flipped ? k : n),
                accumulate ? 1.0F : 0.0F, c, blas_size(stride));
  }
  static const Activation& identity = *find_activation("identity");
  static const Activation& relu = *find_activation("relu");
  bias_activate(epilogue.relu ? relu : identity, m, n, epilogue.bias, c);
}

Status reserve_products(std::size_t threads) {
  if (!has_room(threads * kBlasBufferBytes)) {
    return Error{
        Errc::kResource,
        "not enough address space for matrix products: " + std::to_string(kBlasBufferBytes >> 20U) +
            " MiB for each of " + std::to_string(threads) + " threads",
        "raise the limit of address space (ulimit -v), or lower train.trainer_count"};
  }
  const float one = 1;
  float product = 0;
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, 1, 1, 1, 1.0F, &one, 1, &one, 1, 0.0F,
              &product, 1);
  return {};
}

}  // namespace paddle::kernels
