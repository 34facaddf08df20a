// Interpreter of a plan on the host, one op after the other: the reference for other executors. Its
// results are those of Network::forward and backward, bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "engine/nn/plan/host_frame.h"

namespace paddle::nn {

class HostInterpreter {
 public:
  // The plan outlives it.
  explicit HostInterpreter(const Plan& plan) : plan_(plan), frame_(plan) {}

  // Cost summed over the run's examples. kData: a label or id is out of range. The run outlives
  // backward.
  Result<double> forward(const Run& run);
  // Requires a forward in Mode::kTrain.
  void backward();

  // Results of the last forward. Outputs of a layer begin at its region of Plan::outputs.
  const float* output(std::size_t layer) const { return frame_.read(*plan_.outputs[layer]); }
  double cost(std::size_t index) { return frame_.cost(index); }
  std::span<const std::uint32_t> predictions(std::size_t index) {
    return frame_.predictions(index);
  }
  // Result of the last backward: of this run alone.
  std::span<const float> parameter_gradient(std::size_t parameter) {
    return frame_.values(plan_.parameter_gradients[parameter]->buffer);
  }

 private:
  const Plan& plan_;
  HostFrame frame_;
};

}  // namespace paddle::nn
