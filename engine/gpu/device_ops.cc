#include "engine/gpu/device_ops.h"

#include <algorithm>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "engine/nn/plan.h"

namespace paddle::nn {

namespace kernel = kernels::device;

namespace {

// The function as a card's kernels name it; none for softmax and the identity, which are not
// computed element by element.
std::optional<kernel::Function> function_of(const kernels::Activation& activation) {
  if (activation.name == "sigmoid") return kernel::Function::kSigmoid;
  if (activation.name == "relu") return kernel::Function::kRelu;
  if (activation.name == "tanh") return kernel::Function::kTanh;
  if (activation.name == "gelu") return kernel::Function::kGelu;
  PADDLE_CHECK(activation.name == "softmax" || activation.apply == nullptr);
  return std::nullopt;
}

Status check_inputs(std::string_view type, std::size_t inputs, std::size_t most) {
  if (inputs <= most) return {};
  return Error{
      Errc::kUsage,
      fmt::format("a layer of type {} has {} inputs; on a GPU the limit is {}", type, inputs, most),
      "split the layer in two, or train with device = \"cpu\""};
}

}  // namespace

Status check_for_device(const Plan& plan) {
  for (const Op& op : plan.forward) {
    if (const auto* sum = std::get_if<op::Sum>(&op)) {
      PADDLE_TRY_STATUS(check_inputs("add", sum->from.size(), kernel::kCombinedMax));
    } else if (const auto* product = std::get_if<op::Product>(&op)) {
      PADDLE_TRY_STATUS(check_inputs("multiply", product->from.size(), kernel::kCombinedMax));
    } else if (const auto* pairs = std::get_if<op::PairSum>(&op)) {
      PADDLE_TRY_STATUS(
          check_inputs("factorization_machine", pairs->from.size(), kernel::kFieldBlocksMax));
    }
  }
  return {};
}

void DeviceOps::execute(const Op& op) {
  std::visit([this](const auto& one) { compute(one); }, op);
}

const std::uint16_t* DeviceOps::rounded(const RoundedFactors::Factor& factor) {
  const RoundedFactors::Copy& copy = frame_.rounded().copies()[factor.copy];
  std::uint16_t* const to = frame_.factor(factor.copy);
  if (factor.is_written) return to;
  const std::size_t height = extent(copy.rows);
  const std::size_t width = extent(copy.width);
  const std::size_t stride = padded(width);
  launch(kernel::RoundToBfloat16{.rows = height,
                                 .width = width,
                                 .from = frame_.read(copy.from),
                                 .to = to,
                                 .to_stride = stride});
  const std::size_t added = copy.pads_rows ? padded(height) - height : 0;
  if (added == 0) return to;
  // Fill writes floats. Two bfloat16 values make a float, and the stride is even.
  launch(kernel::Fill{.size = added * stride / 2,
                      .value = 0,
                      .to = reinterpret_cast<float*>(to + height * stride)});
  return to;
}

kernel::Occurrences DeviceOps::occurrences(std::size_t input, const Region& gradient) const {
  kernel::Occurrences found = frame_.inputs().occurrences(input, gradient);
  found.partials = frame_.chunks();
  found.counters = frame_.counters();
  return found;
}

void DeviceOps::copy(std::size_t width, const Region& from, const Region& to, bool accumulate) {
  launch(kernel::CopyBlock{.rows = rows(),
                           .width = width,
                           .from = frame_.read(from),
                           .to = frame_.write(to),
                           .accumulate = accumulate});
}

// The last one of several products that are added up has the relu.
bool DeviceOps::shows_nan(const op::Gemm& product) const {
  const Plan& plan = frame_.plan();
  return trains() && std::ranges::none_of(plan.forward, [&](const Op& op) {
           const auto* const added = std::get_if<op::Gemm>(&op);
           return added != nullptr && added->c == product.c &&
                  plan.is_static[plan.buffers[added->b.buffer].index];
         });
}

void DeviceOps::compute(const op::Gemm& op) {
  const std::size_t m = extent(op.m);
  const std::size_t n = extent(op.n);
  const std::size_t k = extent(op.k);
  const bool a_flipped = op.transpose_a == kernels::Transpose::kYes;
  const bool b_flipped = op.transpose_b == kernels::Transpose::kYes;
  check_packed(op.a, a_flipped ? m : k);
  check_packed(op.b, b_flipped ? k : n);
  if (is_thin(op)) {
    return launch(kernel::ThinProduct{.m = m,
                                      .n = n,
                                      .k = k,
                                      .a = frame_.at(op.a),
                                      .b = frame_.at(op.b),
                                      .c = frame_.write(op.c),
                                      .accumulate = op.accumulate,
                                      .bias = op.bias ? frame_.at(*op.bias) : nullptr,
                                      .relu = op.relu});
  }
  device::Product product{.transpose_a = a_flipped,
                          .transpose_b = b_flipped,
                          .m = m,
                          .n = n,
                          .k = k,
                          .a = frame_.at(op.a),
                          .a_stride = op.a.stride,
                          .b = frame_.at(op.b),
                          .b_stride = op.b.stride,
                          .c = frame_.at(op.c),
                          .c_stride = op.c.stride,
                          .accumulate = op.accumulate,
                          .bias = op.bias ? frame_.at(*op.bias) : nullptr};
  if (run_.compute == kernels::Compute::kBfloat16) {
    const RoundedFactors::Factors& factors = frame_.rounded().of(op);
    product.precision = device::Precision::kBfloat16;
    product.k = padded(k);
    product.a = rounded(factors.a);
    product.a_stride = padded(op.a.stride);
    product.b = rounded(factors.b);
    product.b_stride = padded(op.b.stride);
  }
  // A fused relu costs nothing. One of its own reads and writes the outputs once more: 17 us for
  // 16384 x 400 on an H100, and some 2 us for a small batch.
  product.relu = op.relu && shows_nan(op);
  device_.multiply(stream_, product);
  if (product.relu == op.relu) return;
  check_packed(op.c, n);
  launch(kernel::Activate{.size = m * n,
                          .function = kernel::Function::kRelu,
                          .from = frame_.at(op.c),
                          .to = frame_.at(op.c)});
}

void DeviceOps::compute(const op::Activate& op) {
  check_packed(op.from, op.width);
  check_packed(op.to, op.width);
  if (const auto function = function_of(*op.activation)) {
    return launch(kernel::Activate{.size = rows() * op.width,
                                   .function = *function,
                                   .from = frame_.at(op.from),
                                   .to = frame_.at(op.to)});
  }
  if (op.from != op.to) copy(op.width, op.from, op.to, false);
  if (op.activation->apply == nullptr) return;
  launch(kernel::SoftmaxRows{.rows = rows(), .width = op.width, .y = frame_.at(op.to)});
}

template <class Terms>
void DeviceOps::sum_columns(std::size_t width, const Terms& terms, const Region& to,
                            bool accumulate) {
  launch(kernels::device::ColumnSums<Terms>{.rows = rows(),
                                            .width = width,
                                            .terms = terms,
                                            .chunks = frame_.chunks(),
                                            .counters = frame_.counters(),
                                            .to = frame_.at(to),
                                            .accumulate = accumulate});
}

void DeviceOps::compute(const op::ActivateBackward& op) {
  check_packed(op.kept, op.width);
  check_packed(op.gradient, op.width);
  const auto function = function_of(*op.activation);
  if (!function && op.activation->backward != nullptr) {
    launch(kernel::SoftmaxRowsBackward{.rows = rows(),
                                       .width = op.width,
                                       .y = frame_.at(op.kept),
                                       .gradient = frame_.at(op.gradient)});
  }
  if (op.bias_gradient) {
    kernel::SlopeTerms terms{.gradient = frame_.write(op.gradient)};
    if (function) {
      terms.function = *function;
      terms.kept = frame_.read(op.kept);
    }
    sum_columns(op.width, terms, *op.bias_gradient, op.accumulate);
  } else if (function) {
    launch(kernel::ActivateBackward{.size = rows() * op.width,
                                    .function = *function,
                                    .kept = frame_.at(op.kept),
                                    .gradient = frame_.at(op.gradient)});
  }
}

void DeviceOps::compute(const op::Copy& op) {
  copy(op.width, op.from, op.to, op.accumulate);
}

void DeviceOps::compute(const op::Sum& op) {
  kernel::SumOf sum{.rows = rows(),
                    .width = op.width,
                    .inputs = op.from.size(),
                    .from = {},
                    .to = frame_.write(op.to)};
  std::ranges::transform(op.from, sum.from, [&](const Region& from) { return frame_.read(from); });
  launch(sum);
}

void DeviceOps::compute(const op::Product& op) {
  kernel::ProductOf product{.rows = rows(),
                            .width = op.width,
                            .inputs = op.from.size(),
                            .from = {},
                            .to = frame_.write(op.to),
                            .accumulate = op.accumulate};
  std::ranges::transform(op.from, product.from,
                         [&](const Region& from) { return frame_.read(from); });
  launch(product);
}

void DeviceOps::compute(const op::Dropout& op) {
  if (!trains()) return copy(op.width, op.from, op.to, false);
  launch(kernel::Dropout{.rows = rows(),
                         .width = op.width,
                         .seed = frame_.inputs().seed(),
                         .layer = op.layer,
                         .rate = op.rate,
                         .from = frame_.read(op.from),
                         .mask = frame_.write(op.mask),
                         .to = frame_.write(op.to)});
}

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

void DeviceOps::compute(const op::Zero& op) {
  launch(kernel::Fill{.size = frame_.gradient_floats(op.buffer),
                      .value = 0,
                      .to = frame_.at({.buffer = op.buffer})});
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
                                .occurrences = occurrences(op.rows, op.table_gradient),
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
                              .occurrences = occurrences(op.bags, op.table_gradient),
                              .bags = input.bags,
                              .weights = input.weights,
                              .scales = input.scales,
                              .gradient = frame_.read(op.gradient),
                              .table_gradient = frame_.at(op.table_gradient),
                              .accumulate = op.accumulate});
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
                                        .occurrences = occurrences(op.rows, gradient),
                                        .x = x,
                                        .slopes = frame_.read(op.slopes),
                                        .table_gradient = frame_.at(gradient)});
  };
  sum_table(op.width, frame_.read(op.x), op.weight_gradient);
  if (op.bias_gradient) sum_table(1, {}, *op.bias_gradient);
}

}  // namespace paddle::nn
