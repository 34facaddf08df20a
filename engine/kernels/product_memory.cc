#include "engine/kernels/product_memory.h"

#include <cblas.h>
#include <sys/mman.h>

#include <string>

namespace paddle::kernels {
namespace {

constexpr std::size_t kBlasBufferBytes = 128U << 20U;  // of each thread, at its first product

}  // namespace

Status reserve_products(std::size_t threads) {
  const std::size_t bytes = threads * kBlasBufferBytes;
  void* const place = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) {
    return Error{Errc::kResource,
                 "no room for matrix products: " + std::to_string(kBlasBufferBytes >> 20U) +
                     " MiB for each of " + std::to_string(threads) + " threads",
                 "raise the limit of address space (ulimit -v), or lower train.trainer_count"};
  }
  ::munmap(place, bytes);
  const float one = 1;
  float product = 0;
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, 1, 1, 1, 1.0F, &one, 1, &one, 1, 0.0F,
              &product, 1);
  return {};
}

}  // namespace paddle::kernels
