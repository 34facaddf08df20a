#include "engine/nn/device/device_ops.h"

#include <algorithm>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "engine/nn/plan/host_ops.h"

namespace paddle::nn {

namespace kernel = kernels::device;

namespace {

// The function that a card computes element by element.
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
  return Error{Errc::kUsage,
               fmt::format("a layer of type {} has {} inputs, a GPU adds up or multiplies {}", type,
                           inputs, most),
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

void DeviceOps::round_factor(std::size_t index, const Region& from, std::size_t rows,
                             std::size_t width, bool pad_rows) {
  const std::size_t stride = padded(width);
  std::uint16_t* const to = frame_.factor(index);
  launch(kernel::RoundToBfloat16{
      .rows = rows, .width = width, .from = frame_.read(from), .to = to, .to_stride = stride});
  const std::size_t added = pad_rows ? padded(rows) - rows : 0;
  if (added == 0) return;
  // Two values make a float, and a stride is even.
  launch(kernel::Fill{
      .size = added * stride / 2, .value = 0, .to = reinterpret_cast<float*>(to + rows * stride)});
}

void DeviceOps::compute(const op::Gemm& op) {
  const std::size_t m = extent(op.m);
  const std::size_t n = extent(op.n);
  const std::size_t k = extent(op.k);
  const bool a_flipped = op.transpose_a == kernels::Transpose::kYes;
  const bool b_flipped = op.transpose_b == kernels::Transpose::kYes;
  check_packed(op.a, a_flipped ? m : k);
  check_packed(op.b, b_flipped ? k : n);
  if (!a_flipped && !b_flipped && n <= kernel::kThinColumns) {
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
                          .bias = op.bias ? frame_.at(*op.bias) : nullptr,
                          .relu = op.relu};
  if (run_.compute == kernels::Compute::kBfloat16) {
    round_factor(0, op.a, a_flipped ? k : m, a_flipped ? m : k, a_flipped);
    round_factor(1, op.b, b_flipped ? n : k, b_flipped ? k : n, !b_flipped);
    product.precision = device::Precision::kBfloat16;
    product.k = padded(k);
    product.a = frame_.factor(0);
    product.a_stride = padded(op.a.stride);
    product.b = frame_.factor(1);
    product.b_stride = padded(op.b.stride);
  }
  device_.multiply(stream_, product);
}

void DeviceOps::copy(std::size_t width, const Region& from, const Region& to, bool accumulate) {
  launch(kernel::CopyBlock{.rows = rows(),
                           .width = width,
                           .from = frame_.read(from),
                           .to = frame_.write(to),
                           .accumulate = accumulate});
}

void DeviceOps::compute(const op::Copy& op) {
  copy(op.width, op.from, op.to, op.accumulate);
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

void DeviceOps::compute(const op::Zero& op) {
  launch(kernel::Fill{.size = frame_.gradient_floats(op.buffer),
                      .value = 0,
                      .to = frame_.at({.buffer = op.buffer})});
}

}  // namespace paddle::nn
