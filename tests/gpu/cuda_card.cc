// The first card of this machine.
#include <cuda_runtime_api.h>

#include "engine/gpu/cuda_driver.h"
#include "tests/gpu/card_memory.h"

namespace paddle::test {

device::Driver& card_driver() {
  static device::CudaDriver driver;
  return driver;
}

SharedSource shared_source() {
  const auto allocate = [](std::size_t bytes) -> void* {
    void* memory = nullptr;
    const cudaError_t error = cudaMallocManaged(&memory, bytes, cudaMemAttachGlobal);
    return error == cudaSuccess ? memory : nullptr;
  };
  return {allocate, [](void* memory) { static_cast<void>(cudaFree(memory)); }};
}

void run_on_card(const kernels::device::Kernel& kernel) {
  const device::Stream stream = device::expect(device::Stream::open(card()));
  card().launch(stream.handle(), kernel);
  device::expect(device::finish(card(), stream));
}

}  // namespace paddle::test
