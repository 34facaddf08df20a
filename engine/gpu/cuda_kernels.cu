// All kernels, compiled for cards. They use the host's formulas, and -fmad=false gives the same
// bits.
#include <cuda_runtime.h>

#include <cstddef>
#include <utility>
#include <variant>

#include "engine/gpu/cuda_kernels.h"

namespace paddle::device {
namespace {

using kernels::device::kWarpLanes;
using kernels::device::Shape;

constexpr unsigned kBlockThreads = 256;
constexpr unsigned kBlocksAtOnce = 4;  // on a multiprocessor; for more, registers spill
// Several times the blocks that the largest card runs at once. With more work, each thread computes
// several indices.
constexpr std::size_t kBlocksMax = 4096;

// Warp of a card, whose lanes are threads. Its sums have the order of HostWarp's.
class CudaWarp {
 public:
  template <class F>
  __device__ void each(std::size_t count, F f) const {
    for (std::size_t i = lane_; i < count; i += kWarpLanes) f(i);
  }
  template <class Term>
  __device__ float sum(std::size_t count, Term term) const {
    return lanes(count, term, 0.0F, [](float a, float b) { return a + b; });
  }
  template <class Term>
  __device__ double sum_double(std::size_t count, Term term) const {
    return lanes(count, term, 0.0, [](double a, double b) { return a + b; });
  }
  template <class T, class Term, class Join>
  __device__ T reduce(std::size_t count, T none, Term term, Join join) const {
    return lanes(count, term, none, join);
  }
  template <class F>
  __device__ void once(F f) const {
    if (lane_ == 0) f();
  }
  // The fences before and after the count order the other warps' writes before the last warp's
  // reads. That of lane 0 behind the barrier makes its count release the other lanes' writes too:
  // PTX's memory model grants it for a fence and an atomic operation of one thread.
  __device__ bool is_last(std::uint32_t* counter, std::size_t warps) const {
    __threadfence();
    __syncwarp();
    unsigned before = 0;
    if (lane_ == 0) {
      __threadfence();
      before = atomicAdd(counter, 1U);
    }
    if (__shfl_sync(kAll, before, 0) + 1 != warps) return false;
    __threadfence();
    if (lane_ == 0) *counter = 0;
    return true;
  }

 private:
  static constexpr unsigned kAll = 0xffffffffU;

  template <class T, class Term, class Join>
  __device__ T lanes(std::size_t count, Term term, T none, Join join) const {
    T own = none;
    // Loads of several turns are under way at once; their results are joined in the same order.
#pragma unroll 4
    for (std::size_t i = lane_; i < count; i += kWarpLanes) own = join(own, term(i));
    for (unsigned half = kWarpLanes / 2; half > 0; half /= 2) {
      own = join(own, __shfl_down_sync(kAll, own, half));
    }
    return __shfl_sync(kAll, own, 0);
  }

  unsigned lane_ = threadIdx.x % kWarpLanes;
};

// Number of threads that work on one index.
template <class Kernel>
constexpr unsigned kThreadsEach = Kernel::kShape == Shape::kWarps ? kWarpLanes : 1;

template <class Kernel>
__global__ void __launch_bounds__(kBlockThreads, kBlocksAtOnce)
    run(const __grid_constant__ Kernel kernel) {
  constexpr unsigned kPerBlock = kBlockThreads / kThreadsEach<Kernel>;
  const std::size_t count = kernel.count();
  const std::size_t step = std::size_t{gridDim.x} * kPerBlock;
  std::size_t i = std::size_t{blockIdx.x} * kPerBlock + threadIdx.x / kThreadsEach<Kernel>;
  for (; i < count; i += step) {
    if constexpr (Kernel::kShape == Shape::kWarps) {
      kernel(CudaWarp(), i);
    } else {
      kernel(i);
    }
  }
}

template <class Kernel>
cudaError_t launch(cudaStream_t stream, const Kernel& kernel) {
  constexpr unsigned kPerBlock = kBlockThreads / kThreadsEach<Kernel>;
  const std::size_t count = kernel.count();
  if (count == 0) return cudaSuccess;
  std::size_t blocks = (count + kPerBlock - 1) / kPerBlock;
  if (blocks > kBlocksMax) blocks = kBlocksMax;
  run<<<static_cast<unsigned>(blocks), kBlockThreads, 0, stream>>>(kernel);
  return cudaGetLastError();
}

template <class... Kernels>
cudaError_t load_all(const std::variant<Kernels...>*) {
  cudaError_t error = cudaSuccess;
  cudaFuncAttributes attributes{};
  const auto load = [&](const void* function) {
    if (error == cudaSuccess) error = cudaFuncGetAttributes(&attributes, function);
  };
  (load(reinterpret_cast<const void*>(&run<Kernels>)), ...);
  return error;
}

}  // namespace

cudaError_t launch_kernel(cudaStream_t stream, const kernels::device::Kernel& kernel) {
  return std::visit([stream](const auto& of) { return launch(stream, of); }, kernel);
}

cudaError_t load_kernels() {
  return load_all(static_cast<const kernels::device::Kernel*>(nullptr));
}

}  // namespace paddle::device
