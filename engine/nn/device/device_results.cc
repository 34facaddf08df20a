#include "engine/nn/device/device_results.h"

#include <algorithm>

namespace paddle::nn {

DeviceResults::DeviceResults(const Plan& plan, device::Device& device, WantedResults wanted)
    : plan_(plan),
      device_(device),
      wanted_(std::move(wanted)),
      gradients_from_(kPredictions + plan.predictions.size()),
      arena_(device, gradients_from_ + plan.parameter_gradients.size()) {
  std::erase_if(wanted_.outputs, [&](std::size_t layer) {
    return plan.buffers[plan.outputs[layer]->buffer].kind == Buffer::Kind::kInput;
  });
  for (std::size_t i = 0; i < wanted_.outputs.size(); ++i) outputs_.emplace_back(device);
}

Result<bool> DeviceResults::reserve(const Run& run, std::size_t rows_max,
                                    std::span<const std::size_t> table_rows) {
  rows_ = run.rows();
  gradients_on_card_.resize(plan_.parameter_gradients.size());
  for (std::size_t p = 0; p < gradients_on_card_.size(); ++p) {
    gradients_on_card_[p] = run.parameters.on_card(p).gradient;
  }
  const std::size_t costs = plan_.costs.size() * sizeof(double);
  arena_.use(kCosts, costs, costs);
  for (std::size_t i = 0; i < plan_.predictions.size(); ++i) {
    const bool is_wanted = std::ranges::find(wanted_.predictions, i) != wanted_.predictions.end();
    arena_.use(kPredictions + i, is_wanted ? rows_ * sizeof(std::uint32_t) : 0,
               rows_max * sizeof(std::uint32_t));
  }
  for (const Buffer& buffer : plan_.buffers) {
    if (buffer.kind != Buffer::Kind::kParameterGradient) continue;
    std::size_t used = 1;
    std::size_t room = 1;
    if (buffer.rows == Buffer::Rows::kTable) {
      used = run.parameters.sparse[buffer.index].ids.size();
      room = table_rows[buffer.index];
    }
    if (gradients_on_card_[buffer.index] != nullptr) {
      arena_.use(gradients_from_ + buffer.index, 0, 0);
      continue;
    }
    const std::size_t row_bytes = buffer.width * sizeof(float);
    arena_.use(gradients_from_ + buffer.index, run.mode == Mode::kTrain ? used * row_bytes : 0,
               room * row_bytes);
  }
  PADDLE_TRY(const bool moved, arena_.settle());
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const std::size_t width = plan_.buffers[plan_.outputs[wanted_.outputs[i]]->buffer].width;
    PADDLE_TRY_STATUS(outputs_[i].reserve(rows_max * width));
  }
  return moved;
}

std::span<const float> DeviceResults::output_found(std::size_t layer) const {
  const auto found = std::ranges::find(wanted_.outputs, layer);
  PADDLE_CHECK(found != wanted_.outputs.end());
  const auto index = static_cast<std::size_t>(found - wanted_.outputs.begin());
  return {outputs_[index].data(), output_floats(layer)};
}

}  // namespace paddle::nn
