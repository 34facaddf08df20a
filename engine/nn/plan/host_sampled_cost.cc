#include <algorithm>

#include "engine/kernels/formulas.h"
#include "engine/kernels/row_wise.h"
#include "engine/kernels/rows.h"
#include "engine/nn/plan/host_ops.h"

namespace paddle::nn {

void compute(const op::SampledCost& op, HostFrame& frame) {
  const InputArrays& input = frame.input(op.rows);
  const std::uint32_t* index = input.indices.data();
  const float* scale = input.scales.empty() ? nullptr : input.scales.data();
  const float* x = frame.read(op.x);
  for (std::size_t row = 0; row < frame.run().rows(); ++row, x += op.x.stride) {
    float* slopes = frame.write(op.slopes) + row * op.slopes.stride;
    double cost = 0;
    for (std::size_t k = 0; k < op.candidates; ++k) {
      const std::uint32_t at = *index++;
      const std::uint32_t bias_at = op.bias ? *index++ : kernels::kNoRow;
      const float correction = scale == nullptr ? 0.0F : *scale++;
      slopes[k] = 0;
      if (at == kernels::kNoRow) continue;
      float score = kernels::dot(op.width, x, frame.read(op.weight) + at * op.width);
      if (op.bias) score += frame.read(*op.bias)[bias_at];
      const float logit = score - correction;
      const auto of = kernels::candidate_cost_of(logit, k == 0, frame.run().cost_scale);
      cost += of.cost;
      slopes[k] = of.slope;
    }
    frame.cost(op.cost) += cost;
  }
}

void compute(const op::SampledCostBackward& op, HostFrame& frame) {
  const std::uint32_t* index = frame.input(op.rows).indices.data();
  const float* x = frame.read(op.x);
  float* x_gradient = frame.write(op.x_gradient);
  for (std::size_t row = 0; row < frame.run().rows(); ++row) {
    if (!op.accumulate) std::fill_n(x_gradient, op.width, 0.0F);
    const float* slopes = frame.read(op.slopes) + row * op.slopes.stride;
    for (std::size_t k = 0; k < op.candidates; ++k) {
      const std::uint32_t at = *index++;
      const std::uint32_t bias_at = op.bias_gradient ? *index++ : kernels::kNoRow;
      if (at == kernels::kNoRow) continue;
      kernels::add_scaled(op.width, slopes[k], frame.read(op.weight) + at * op.width, x_gradient);
      kernels::add_scaled(op.width, slopes[k], x, frame.write(op.weight_gradient) + at * op.width);
      if (op.bias_gradient) frame.write(*op.bias_gradient)[bias_at] += slopes[k];
    }
    x += op.x.stride;
    x_gradient += op.x_gradient.stride;
  }
}

}  // namespace paddle::nn
