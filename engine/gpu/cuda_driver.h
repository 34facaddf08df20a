// Driver for NVIDIA's cards, through CUDA.
#pragma once

#include <string>
#include <vector>

#include "engine/gpu/device.h"

namespace paddle::device {

class CudaDriver final : public Driver {
 public:
  std::string describe() override;
  Result<std::vector<Card>> cards() override;
  Result<std::unique_ptr<Device>> open(std::uint32_t index) override;
};

}  // namespace paddle::device
