// Launches of kernels with CUDA.
#pragma once

#include <cuda_runtime_api.h>

#include "engine/math/card_kernel.h"

namespace paddle::device {

cudaError_t launch_kernel(cudaStream_t stream, const kernels::device::Kernel& kernel);

// Loads all kernels onto the current card. Otherwise CUDA would load each kernel at its first
// launch, and the launch would wait for this.
cudaError_t load_kernels();

}  // namespace paddle::device
