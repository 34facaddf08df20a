// Executor on the CPU: each thread of a team runs the layers on a contiguous part of the batch.
#pragma once

#include <vector>

#include "base/pool.h"
#include "engine/nn/network/network.h"
#include "engine/trainer/compute/executor.h"

namespace paddle::trainer {

class HostExecutor final : public Executor {
 public:
  // Both outlive it.
  HostExecutor(const nn::Network& network, ThreadTeam& team);

  Status begin(const nn::Run& batch) override {
    batch_.emplace(batch);
    return {};
  }
  // Computes all. Gradients are summed in thread order.
  Result<Score> finish(Gradients gradients) override;

 private:
  void reduce(std::size_t parts, Gradients gradients);

  const nn::Network& network_;
  ThreadTeam& team_;
  std::vector<nn::Workspace> workspaces_;  // by thread
  std::optional<nn::Run> batch_;
};

}  // namespace paddle::trainer
