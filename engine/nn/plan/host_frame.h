// Memory of one run of a plan on the host: the input arrays, buffers and results that ops use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/memory/huge_pages.h"
#include "engine/nn/plan/plan.h"
#include "engine/nn/run.h"

namespace paddle::nn {

class HostFrame {
 public:
  // The plan outlives it.
  explicit HostFrame(const Plan& plan);

  // Fills the inputs and gives every buffer its size, poisoned with NaN, so that what an op reads
  // before another wrote it shows. The run outlives the ops. kData: as BatchInput::fill.
  Status begin(const Run& run);

  const Run& run() const { return *run_; }
  // First value of a region. Parameters and inputs can only be read.
  const float* read(const Region& region) const;
  float* write(const Region& region);
  // All of a buffer.
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

}  // namespace paddle::nn
