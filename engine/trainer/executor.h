// Computation of a batch: forward and, in training, backward.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/pool.h"
#include "base/result.h"
#include "engine/gpu/device.h"
#include "engine/gpu/device_executor.h"
#include "engine/nn/network.h"
#include "engine/nn/run.h"
#include "engine/trainer/score.h"

namespace paddle::trainer {

// Where the gradients of a batch go, by parameter.
using Gradients = std::span<const std::span<float>>;

class Executor {
 public:
  Executor() = default;
  virtual ~Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Where dense parameters may stay on a card (nn::Parameters::card).
  virtual std::optional<device::ComputeStream> compute_stream() const { return std::nullopt; }
  // Whether stage() does something while a run is computed.
  virtual bool stages() const { return false; }
  // Prepares what a card reads of the next run; the next begin() may be for another run.
  // `has_values`: the parameters have the values of that run already. kData: as Network::forward.
  virtual Status stage(const nn::Run& /*batch*/, bool /*has_values*/) { return {}; }
  // Begins the run of a whole batch, with a lookup for each sparse table. A card computes it while
  // the caller continues; what the run refers to must not change until finish(). kData: as
  // Network::forward.
  virtual Status begin(const nn::Run& batch) = 0;
  // Returns when the run is computed. In training it overwrites the gradients; a test has none.
  // kData: as Network::forward.
  virtual Result<Score> finish(Gradients gradients) = 0;
};

// Executor on the CPU: each thread of a team runs the layers on a contiguous part of the batch.
class HostExecutor final : public Executor {
 public:
  // Both must outlive the executor.
  HostExecutor(const nn::Network& network, ThreadTeam& team);

  Status begin(const nn::Run& batch) override {
    batch_.emplace(batch);
    return {};
  }
  // Computes the whole run. Gradients are summed in thread order.
  Result<Score> finish(Gradients gradients) override;

 private:
  void reduce(std::size_t parts, Gradients gradients);

  const nn::Network& network_;
  ThreadTeam& team_;
  std::vector<nn::Workspace> workspaces_;  // by thread
  std::optional<nn::Run> batch_;
};

// Executor on a GPU. The evaluators count on the CPU.
class GpuExecutor final : public Executor {
 public:
  // The network must outlive the executor. kUsage: a layer is too large for a GPU.
  static Result<std::unique_ptr<GpuExecutor>> make(const nn::Network& network,
                                                   std::unique_ptr<device::Device> device);

  std::optional<device::ComputeStream> compute_stream() const override {
    return device::ComputeStream{device_.get(), executor_->stream()};
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
  std::vector<std::size_t> predictions_;  // layers whose predictions evaluators read
  std::unique_ptr<nn::DeviceExecutor> executor_;
  nn::Workspace workspace_;  // of the evaluators
  std::optional<nn::Run> batch_;
};

}  // namespace paddle::trainer
