#include "engine/math/gemm.h"

#include <cblas.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "engine/math/activation.h"
#include "engine/math/avx512_gemm.h"
#include "engine/math/tile_gemm.h"

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

// A product on a CPU with AVX-512. REQUIRES: fits_avx512_gemm().
void multiply(Kernel kernel, Transpose transpose_a, Transpose transpose_b, std::size_t m,
              std::size_t n, std::size_t k, const float* a, const float* b, bool accumulate,
              float* c, std::size_t stride_c, const Epilogue& epilogue) {
  if (is_narrow(n)) kernel = Kernel::kFloat32;
  switch (kernel) {
    case Kernel::kBfloat16Tiles:
      return tile_gemm(transpose_a, transpose_b, m, n, k, a, b, accumulate, c, stride_c, epilogue);
    case Kernel::kBfloat16x3Tiles:
      return tile_gemm_of_parts(transpose_a, transpose_b, m, n, k, a, b, accumulate, c, stride_c,
                                epilogue);
    case Kernel::kFloat32:
    case Kernel::kBfloat16Vectors:
      break;
  }
  const Compute compute =
      kernel == Kernel::kBfloat16Vectors ? Compute::kBfloat16 : Compute::kFloat32;
  avx512_gemm(compute, transpose_a, transpose_b, m, n, k, a, b, accumulate, c, stride_c, epilogue);
}

// The fastest of float32's kernel and these, of which each must be clearly faster.
Kernel fastest_of(std::initializer_list<Kernel> kernels) {
  constexpr double kClearly = 1.2;
  constexpr int kRounds = 5;  // the first ones also load code and make panels
  constexpr std::size_t kSize = 256;
  constexpr Transpose kNo = Transpose::kNo;
  if (std::ranges::none_of(kernels, has_kernel)) return Kernel::kFloat32;
  const std::vector<float> factor(kSize * kSize, 0.5F);
  std::vector<float> product(kSize * kSize);
  const auto seconds = [&](Kernel kernel) {
    const auto start = std::chrono::steady_clock::now();
    multiply(kernel, kNo, kNo, kSize, kSize, kSize, factor.data(), factor.data(), false,
             product.data(), kSize, {});
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  std::vector<Kernel> all{Kernel::kFloat32};
  std::ranges::copy_if(kernels, std::back_inserter(all), has_kernel);
  std::vector<double> best(all.size(), std::numeric_limits<double>::infinity());
  // In turns, so that what slows this process down meanwhile slows down all of them.
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      best[i] = std::min(best[i], seconds(all[i]) * (i == 0 ? 1 : kClearly));
    }
  }
  return all[static_cast<std::size_t>(std::ranges::min_element(best) - best.begin())];
}

std::atomic<Kernel>& selected_kernel(Compute compute) {
  if (compute == Compute::kBfloat16) {
    static std::atomic<Kernel> kernel =
        fastest_of({Kernel::kBfloat16Tiles, Kernel::kBfloat16Vectors});
    return kernel;
  }
  static std::atomic<Kernel> kernel = fastest_of({Kernel::kBfloat16x3Tiles});
  return kernel;
}

}  // namespace

void forget_openblas_variables() {
  if (has_set_kernels) ::unsetenv(kKernelsVariable);
}

bool has_kernel(Kernel kernel) {
  switch (kernel) {
    case Kernel::kFloat32:
      return true;
    case Kernel::kBfloat16Vectors:
      return has_avx512_gemm(Compute::kBfloat16);
    case Kernel::kBfloat16Tiles:
    case Kernel::kBfloat16x3Tiles:
      return has_tile_gemm();
  }
  return false;
}

std::string_view name_of(Kernel kernel) {
  switch (kernel) {
    case Kernel::kFloat32:
      return "float32";
    case Kernel::kBfloat16Vectors:
      return "bfloat16 by AVX-512";
    case Kernel::kBfloat16Tiles:
      return "bfloat16 by AMX";
    case Kernel::kBfloat16x3Tiles:
      return "bf16x3 by AMX";
  }
  return "";
}

Kernel kernel_for(Compute compute) {
  return compute == Compute::kFloat32 ? Kernel::kFloat32 : selected_kernel(compute).load();
}

void use_kernel(Compute compute, Kernel kernel) {
  PADDLE_CHECK(has_kernel(kernel) && compute != Compute::kFloat32);
  selected_kernel(compute) = kernel;
}

bool has_independent_rows() {
  return has_avx512_gemm(Compute::kFloat32);
}

void gemm(Compute compute, Transpose transpose_a, Transpose transpose_b, std::size_t m,
          std::size_t n, std::size_t k, const float* a, const float* b, bool accumulate, float* c,
          const Epilogue& epilogue, std::size_t stride_c) {
  static const bool has_own = has_avx512_gemm(Compute::kFloat32);
  PADDLE_CHECK(stride_c == 0 || (stride_c >= n && epilogue.bias == nullptr && !epilogue.relu));
  if (m == 0 || n == 0) return;
  const std::size_t stride = stride_c == 0 ? n : stride_c;
  if (has_own && k > 0 && fits_avx512_gemm(transpose_a, n)) {
    multiply(kernel_for(compute), transpose_a, transpose_b, m, n, k, a, b, accumulate, c, stride,
             epilogue);
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
