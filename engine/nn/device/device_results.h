// Memory of a card for what a run of a plan finds, and how it comes down to the host: costs,
// predictions, gradients of parameters, and the outputs of some layers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/nn/device/arena.h"
#include "engine/nn/plan/plan.h"
#include "engine/nn/run.h"

namespace paddle::nn {

// Results that somebody reads, beside costs and gradients.
struct WantedResults {
  std::vector<std::size_t> outputs;      // layers; a slot of the batch has no need to come down
  std::vector<std::size_t> predictions;  // indices in Plan::predictions
};

class DeviceResults {
 public:
  // Plan and device outlive it.
  DeviceResults(const Plan& plan, device::Device& device, WantedResults wanted);

  // Makes room for a run of at most `rows_max` rows, and of so many in each sparse table. True
  // where memory moved.
  Result<bool> reserve(const Run& run, std::size_t rows_max,
                       std::span<const std::size_t> table_rows);

  double* cost(std::size_t index) const { return arena_.card<double>(kCosts) + index; }
  std::uint32_t* predictions(std::size_t index) const {
    return arena_.card<std::uint32_t>(kPredictions + index);
  }
  float* gradient(std::size_t parameter) const {
    if (gradients_on_card_[parameter] != nullptr) return gradients_on_card_[parameter];
    return arena_.card<float>(gradients_from_ + parameter);
  }

  // `output_of(layer)` is where the card has a layer's outputs.
  template <class OutputOf>
  void download(device::StreamHandle stream, OutputOf output_of) const {
    arena_.download(stream);
    for (std::size_t i = 0; i < wanted_.outputs.size(); ++i) {
      const std::size_t layer = wanted_.outputs[i];
      device_.download(stream, reinterpret_cast<const std::byte*>(output_of(layer)),
                       reinterpret_cast<std::byte*>(outputs_[i].data()),
                       output_floats(layer) * sizeof(float));
    }
  }

  // Of the last download.
  std::span<const double> costs_found() const {
    return {arena_.host<double>(kCosts), plan_.costs.size()};
  }
  std::span<const std::uint32_t> predictions_found(std::size_t index) const {
    return {arena_.host<std::uint32_t>(kPredictions + index), rows_};
  }
  std::span<const float> output_found(std::size_t layer) const;
  // As many floats as the run's parameter has.
  const float* gradient_found(std::size_t parameter) const {
    return arena_.host<float>(gradients_from_ + parameter);
  }

 private:
  static constexpr std::size_t kCosts = 0;
  static constexpr std::size_t kPredictions = 1;
  std::size_t output_floats(std::size_t layer) const {
    return rows_ * plan_.buffers[plan_.outputs[layer]->buffer].width;
  }

  const Plan& plan_;
  device::Device& device_;
  WantedResults wanted_;
  std::size_t gradients_from_;  // section of the arena
  Arena arena_;
  std::vector<device::PinnedMemory<float>> outputs_;  // of wanted_.outputs
  std::size_t rows_ = 0;                              // of the last run
  std::vector<float*> gradients_on_card_;  // likewise, by parameter: Parameters::on_card()
};

}  // namespace paddle::nn
