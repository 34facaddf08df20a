// Executor on a GPU. The evaluators count on the CPU.
#pragma once

#include <memory>

#include "engine/nn/device/device_executor.h"
#include "engine/nn/network/network.h"
#include "engine/trainer/compute/executor.h"

namespace paddle::trainer {

class GpuExecutor final : public Executor {
 public:
  // The network outlives it. kUsage: a layer is too large for a GPU.
  static Result<std::unique_ptr<GpuExecutor>> make(const nn::Network& network,
                                                   std::unique_ptr<device::Device> device);

  std::optional<device::Lane> lane() const override {
    return device::Lane{device_.get(), executor_->stream()};
  }
  bool stages() const override { return true; }
  Status stage(const nn::Run& batch, bool has_values) override {
    return executor_->stage(batch, has_values);
  }
  Status begin(const nn::Run& batch) override;
  Result<Score> finish(Gradients gradients) override;

 private:
  GpuExecutor(const nn::Network& network, std::unique_ptr<device::Device> device);

  const nn::Network& network_;
  const nn::Plan plan_;
  std::unique_ptr<device::Device> device_;
  std::vector<std::size_t> outputs_;      // layers that evaluators read
  std::vector<std::size_t> predictions_;  // likewise
  std::unique_ptr<nn::DeviceExecutor> executor_;
  nn::Workspace workspace_;  // of the evaluators
  std::optional<nn::Run> batch_;
};

}  // namespace paddle::trainer
