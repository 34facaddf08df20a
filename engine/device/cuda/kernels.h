// Kernels as CUDA runs them.
#pragma once

#include <cuda_runtime_api.h>

#include "engine/kernels/device/kernel.h"

namespace paddle::device {

cudaError_t launch_kernel(cudaStream_t stream, const kernels::device::Kernel& kernel);

// Onto the current card, which would otherwise load each at its first launch, and wait for it.
cudaError_t load_kernels();

}  // namespace paddle::device
