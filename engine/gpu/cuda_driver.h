// Driver for NVIDIA's cards, through CUDA.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <vector>

#include "engine/gpu/device.h"

namespace paddle::device {

// The UUID as nvidia-smi prints it: "GPU-" and 16 bytes in hexadecimal, in groups of 4, 2, 2, 2 and
// 6; "MIG-" for a part of a GPU that is divided, which has " MIG " in its name.
std::string uuid_of(const cudaDeviceProp& card);

// PADDLE_CUDA_SYNC=1 in the environment opens devices that wait for each command.
class CudaDriver final : public Driver {
 public:
  std::string describe() override;
  Result<std::vector<Card>> cards() override;
  Result<std::unique_ptr<Device>> open(std::uint32_t index) override;
};

}  // namespace paddle::device
