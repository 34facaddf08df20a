// Interpreter of a plan on the host, one op after the other: the reference for other executors. Its
// results equal those of Network::forward and backward, bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/math/huge_pages.h"
#include "engine/nn/plan.h"
#include "engine/nn/run.h"

namespace paddle::nn {

// Memory of one run of a plan on the host: the input arrays, buffers and results that ops use.
class HostFrame {
 public:
  // The plan must outlive the frame.
  explicit HostFrame(const Plan& plan);

  // Fills the inputs and gives every buffer its size. Buffers are filled with NaN, so that an op
  // that reads a value before another op has written it gives NaN. The run must outlive the ops.
  // kData: as BatchInput::fill.
  Status begin(const Run& run);

  const Run& run() const { return *run_; }
  // First value of a region. Parameters and inputs can only be read.
  const float* read(const Region& region) const;
  float* write(const Region& region);
  // All values of a buffer.
  std::span<float> values(std::size_t buffer);
  const InputArrays& input(std::size_t index) const { return inputs_[index]; }
  double& cost(std::size_t index) { return costs_[index]; }
  std::vector<std::uint32_t>& predictions(std::size_t index) { return predictions_[index]; }

 private:
  std::size_t size_of(const Buffer& buffer) const;
  std::span<const float> parameter(std::size_t index) const;

  const Plan& plan_;
  const Run* run_ = nullptr;
  std::vector<InputArrays> inputs_;
  std::vector<LargeArray<float>> buffers_;  // empty for parameters and inputs
  std::vector<double> costs_;
  std::vector<std::vector<std::uint32_t>> predictions_;
};

class HostInterpreter {
 public:
  // The plan must outlive the interpreter.
  explicit HostInterpreter(const Plan& plan) : plan_(plan), frame_(plan) {}

  // Cost summed over the run's examples. kData: a label or id is out of range. The run must outlive
  // the call of backward().
  Result<double> forward(const Run& run);
  // REQUIRES: a forward() in Mode::kTrain.
  void backward();

  // Results of the last forward. The outputs of a layer begin at its region in Plan::outputs.
  const float* output(std::size_t layer) const { return frame_.read(*plan_.outputs[layer]); }
  double cost(std::size_t index) { return frame_.cost(index); }
  std::span<const std::uint32_t> predictions(std::size_t index) {
    return frame_.predictions(index);
  }
  // Result of the last backward(), for the examples of its run only.
  std::span<const float> parameter_gradient(std::size_t parameter) {
    return frame_.values(plan_.parameter_gradients[parameter]->buffer);
  }

 private:
  const Plan& plan_;
  HostFrame frame_;
};

}  // namespace paddle::nn
