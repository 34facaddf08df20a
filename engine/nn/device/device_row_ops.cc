// Orders for costs, ops on the vectors of one row, and ops on tables.
#include <algorithm>

#include "engine/nn/device/device_ops.h"
#include "engine/nn/plan/host_ops.h"

namespace paddle::nn {

namespace kernel = kernels::device;

kernel::CostSum DeviceOps::cost_sum(std::size_t count, std::size_t cost) {
  double* const sum = frame_.results().cost(cost);
  if (count == 0) {
    launch(kernel::Fill{.size = 2, .value = 0, .to = reinterpret_cast<float*>(sum)});
  }
  return {.costs = frame_.costs(),
          .chunks = frame_.costs() + count,
          .counters = frame_.counters(),
          .sum = sum};
}

void DeviceOps::compute(const op::SoftmaxCrossEntropy& op) {
  launch(kernel::SoftmaxCrossEntropy{.rows = rows(),
                                     .width = op.width,
                                     .classes = frame_.inputs().arrays(op.classes).indices,
                                     .cost_scale = run_.cost_scale,
                                     .logits = frame_.read(op.logits),
                                     .gradient = slopes(op.gradient),
                                     .costs = cost_sum(rows(), op.cost),
                                     .predictions = frame_.results().predictions(op.predictions)});
}

template <class Kernel, class CostOp>
void DeviceOps::compare_with_labels(const CostOp& op) {
  launch(Kernel{.rows = rows(),
                .width = op.width,
                .cost_scale = run_.cost_scale,
                .x = frame_.read(op.x),
                .labels = frame_.read(op.labels),
                .gradient = slopes(op.gradient),
                .costs = cost_sum(rows(), op.cost)});
}

void DeviceOps::compute(const op::BinaryCrossEntropy& op) {
  compare_with_labels<kernel::BinaryCrossEntropy>(op);
}

void DeviceOps::compute(const op::SquaredError& op) {
  compare_with_labels<kernel::SquaredError>(op);
}

void DeviceOps::compute(const op::SampledCost& op) {
  const DeviceInputs::Arrays input = frame_.inputs().arrays(op.rows);
  launch(kernel::SampledCost{.rows = rows(),
                             .width = op.width,
                             .candidates = op.candidates,
                             .indices = input.indices,
                             .scales = input.scales,
                             .x = frame_.read(op.x),
                             .weight = frame_.at(op.weight),
                             .bias = op.bias ? frame_.at(*op.bias) : nullptr,
                             .cost_scale = run_.cost_scale,
                             .slopes = frame_.write(op.slopes),
                             .costs = frame_.costs()});
  const std::size_t costs = rows() * op.candidates;
  launch(kernel::SumCosts{.size = costs, .costs = cost_sum(costs, op.cost)});
}

void DeviceOps::compute(const op::SampledCostBackward& op) {
  const DeviceInputs& inputs = frame_.inputs();
  launch(kernel::SampledCostBackward{.rows = rows(),
                                     .width = op.width,
                                     .candidates = op.candidates,
                                     .has_bias = op.bias_gradient.has_value(),
                                     .indices = inputs.arrays(op.rows).indices,
                                     .weight = frame_.at(op.weight),
                                     .slopes = frame_.read(op.slopes),
                                     .x_gradient = frame_.write(op.x_gradient),
                                     .accumulate = op.accumulate});
  const auto sum_table = [&](std::size_t width, kernel::ConstRows x, const Region& gradient) {
    launch(kernel::SampledTableBackward{.rows_max = frame_.table_rows_max(gradient),
                                        .width = width,
                                        .candidates = op.candidates,
                                        .occurrences = inputs.occurrences(op.rows, gradient),
                                        .x = x,
                                        .slopes = frame_.read(op.slopes),
                                        .table_gradient = frame_.at(gradient)});
  };
  sum_table(op.width, frame_.read(op.x), op.weight_gradient);
  if (op.bias_gradient) sum_table(1, {}, *op.bias_gradient);
}

void DeviceOps::compute(const op::LayerNorm& op) {
  check_packed(op.from, op.width);
  check_packed(op.to, op.width);
  launch(kernel::LayerNorm{.rows = rows(),
                           .width = op.width,
                           .epsilon = op.epsilon,
                           .x = frame_.at(op.from),
                           .gain = frame_.at(op.gain),
                           .bias = frame_.at(op.bias),
                           .y = frame_.at(op.to),
                           .statistics = frame_.at(op.statistics)});
}

void DeviceOps::compute(const op::LayerNormBackward& op) {
  check_packed(op.from, op.width);
  check_packed(op.gradient, op.width);
  check_packed(op.to, op.width);
  const float* const x = frame_.at(op.from);
  const float* const statistics = frame_.at(op.statistics);
  const float* const gradient = frame_.at(op.gradient);
  const kernel::GainTerms of_gain{
      .width = op.width, .x = x, .statistics = statistics, .gradient = gradient};
  sum_columns(op.width, of_gain, op.gain_gradient, true);
  const kernel::SlopeTerms of_bias{.gradient = frame_.write(op.gradient)};
  sum_columns(op.width, of_bias, op.bias_gradient, true);
  launch(kernel::LayerNormBackward{.rows = rows(),
                                   .width = op.width,
                                   .x = x,
                                   .gain = frame_.at(op.gain),
                                   .statistics = statistics,
                                   .gradient = gradient,
                                   .x_gradient = frame_.at(op.to),
                                   .accumulate = op.accumulate});
}

void DeviceOps::compute(const op::PairSum& op) {
  kernel::PairSum pairs{.rows = rows(),
                        .factors = op.factors,
                        .blocks = op.from.size(),
                        .from = {},
                        .fields = {},
                        .to = frame_.write(op.to),
                        .sums = frame_.write(op.sums)};
  for (std::size_t i = 0; i < op.from.size(); ++i) {
    pairs.from[i] = frame_.read(op.from[i].region);
    pairs.fields[i] = op.from[i].fields;
  }
  launch(pairs);
}

void DeviceOps::compute(const op::PairSumBackward& op) {
  launch(kernel::PairSumBackward{.rows = rows(),
                                 .factors = op.factors,
                                 .fields = op.from.fields,
                                 .from = frame_.read(op.from.region),
                                 .sums = frame_.read(op.sums),
                                 .gradient = frame_.read(op.gradient),
                                 .to = frame_.write(op.to),
                                 .accumulate = op.accumulate});
}

void DeviceOps::compute(const op::CosineSimilarity& op) {
  launch(kernel::CosineSimilarity{.rows = rows(),
                                  .width = op.width,
                                  .scale = op.scale,
                                  .a = frame_.read(op.a),
                                  .b = frame_.read(op.b),
                                  .to = frame_.write(op.to)});
}

void DeviceOps::compute(const op::CosineSimilarityBackward& op) {
  launch(kernel::CosineSimilarityBackward{.rows = rows(),
                                          .width = op.width,
                                          .scale = op.scale,
                                          .from = frame_.read(op.from),
                                          .other = frame_.read(op.other),
                                          .gradient = frame_.read(op.gradient),
                                          .to = frame_.write(op.to),
                                          .accumulate = op.accumulate});
}

void DeviceOps::compute(const op::Gather& op) {
  const DeviceInputs::Arrays input = frame_.inputs().arrays(op.rows);
  launch(kernel::Gather{.rows = rows(),
                        .width = op.width,
                        .columns = op.columns,
                        .indices = input.indices,
                        .weights = input.weights,
                        .table = frame_.at(op.table),
                        .to = frame_.write(op.to)});
}

void DeviceOps::compute(const op::GatherBackward& op) {
  const DeviceInputs& inputs = frame_.inputs();
  launch(kernel::GatherBackward{.rows_max = frame_.table_rows_max(op.table_gradient),
                                .width = op.width,
                                .columns = op.columns,
                                .occurrences = inputs.occurrences(op.rows, op.table_gradient),
                                .weights = inputs.arrays(op.rows).weights,
                                .gradient = frame_.read(op.gradient),
                                .table_gradient = frame_.at(op.table_gradient),
                                .accumulate = op.accumulate});
}

void DeviceOps::compute(const op::Pool& op) {
  const DeviceInputs::Arrays input = frame_.inputs().arrays(op.bags);
  launch(kernel::Pool{.rows = rows(),
                      .width = op.width,
                      .slots = op.slots,
                      .indices = input.indices,
                      .starts = input.starts,
                      .weights = input.weights,
                      .scales = input.scales,
                      .table = frame_.at(op.table),
                      .to = frame_.write(op.to)});
}

void DeviceOps::compute(const op::PoolBackward& op) {
  const DeviceInputs& inputs = frame_.inputs();
  const DeviceInputs::Arrays input = inputs.arrays(op.bags);
  launch(kernel::PoolBackward{.rows_max = frame_.table_rows_max(op.table_gradient),
                              .width = op.width,
                              .rows = rows(),
                              .occurrences = inputs.occurrences(op.bags, op.table_gradient),
                              .bags = input.bags,
                              .weights = input.weights,
                              .scales = input.scales,
                              .gradient = frame_.read(op.gradient),
                              .table_gradient = frame_.at(op.table_gradient),
                              .accumulate = op.accumulate});
}

}  // namespace paddle::nn
