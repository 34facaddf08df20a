// fc: activation(sum over inputs of input * weight + bias), with a weight of {input width, size}
// for each input.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "engine/math/activation.h"
#include "engine/math/gemm.h"
#include "engine/nn/lowering.h"
#include "engine/nn/makers.h"

namespace paddle::nn {
namespace {

using kernels::Transpose;

struct Product {
  LayerInput input;
  std::size_t weight = 0;
};

class FullyConnected final : public Layer {
 public:
  FullyConnected(const Builder& builder, std::vector<Product> products,
                 std::optional<std::size_t> bias, const kernels::Activation& activation)
      : Layer(builder.config().name, builder.index(), builder.config().size),
        products_(std::move(products)),
        bias_(bias),
        activation_(activation) {}

  Status forward(const Run& run, LayerAccess access, double&) const override {
    float* out = access.output(index());
    const bool is_relu = activation_.name == "relu";
    for (std::size_t i = 0; i < products_.size(); ++i) {
      const LayerInput& input = products_[i].input;
      kernels::Epilogue last;
      if (i + 1 == products_.size()) {
        last = {bias_ ? run.parameters.dense[*bias_].data() : nullptr, is_relu};
      }
      kernels::gemm(run.compute, Transpose::kNo, Transpose::kNo, run.rows(), width(), input.width,
                    access.output(input.layer), run.parameters.dense[products_[i].weight].data(),
                    i > 0, out, last);
    }
    if (is_relu) return {};
    if (activation_.reads_input) {
      const std::size_t count = run.rows() * width();
      std::copy_n(out, count, access.scratch(index(), count));
    }
    kernels::bias_activate(activation_, run.rows(), width(), nullptr, out);
    return {};
  }

  void backward(const Run& run, LayerAccess access) const override {
    float* gradient = access.output_gradient(index());
    const float beta = bias_ ? access.claim_parameter_gradient(*bias_) : 0.0F;
    const float* kept = activation_.reads_input ? access.scratch(index(), run.rows() * width())
                                                : access.output(index());
    kernels::activation_backward(activation_, run.rows(), width(), kept, gradient, beta,
                                 bias_ ? access.parameter_gradient(*bias_) : nullptr);
    for (const Product& product : products_) {
      const std::size_t inner = product.input.width;
      const bool add_weight = access.claim_parameter_gradient(product.weight) != 0;
      kernels::gemm(run.compute, Transpose::kYes, Transpose::kNo, inner, width(), run.rows(),
                    access.output(product.input.layer), gradient, add_weight,
                    access.parameter_gradient(product.weight));
      const std::size_t wanted = product.input.gradient_width;
      if (wanted == 0) continue;
      const bool add = access.claim_output_gradient(product.input.layer);
      kernels::gemm(run.compute, Transpose::kNo, Transpose::kYes, run.rows(), wanted, width(),
                    gradient, run.parameters.dense[product.weight].data(), add,
                    access.output_gradient(product.input.layer), {}, inner);
    }
  }

  void lower(Lowering& lowering) const override {
    const bool is_relu = activation_.name == "relu";
    const Region out = lowering.output(index());
    const Region sum = activation_.reads_input ? lowering.scratch(index(), width()) : out;
    for (std::size_t i = 0; i < products_.size(); ++i) {
      const LayerInput& input = products_[i].input;
      op::Gemm product{.m = op::kRows,
                       .n = width(),
                       .k = input.width,
                       .a = lowering.output(input.layer),
                       .b = lowering.parameter(products_[i].weight),
                       .c = sum,
                       .accumulate = i > 0};
      if (i + 1 == products_.size()) {
        if (bias_) product.bias = lowering.parameter(*bias_);
        product.relu = is_relu;
      }
      lowering.emit(product);
    }
    const bool is_identity = activation_.apply == nullptr;
    if (!is_relu && !is_identity) {
      lowering.emit(op::Activate{&activation_, width(), sum, out});
    }
    lowering.at_backward([this, &lowering, sum] { lower_backward(lowering, sum); });
  }

 private:
  // `kept`: the values that Activation::backward reads.
  void lower_backward(Lowering& lowering, const Region& kept) const {
    const Region gradient = lowering.output_gradient(index());
    if (bias_ || activation_.backward != nullptr) {
      op::ActivateBackward backward{&activation_, width(), kept, gradient};
      if (bias_) {
        backward.bias_gradient = lowering.parameter_gradient(*bias_);
        backward.accumulate = lowering.claim_parameter_gradient(*bias_);
      }
      lowering.emit(backward);
    }
    for (const Product& product : products_) {
      const LayerInput& input = product.input;
      lowering.emit(op::Gemm{.transpose_a = Transpose::kYes,
                             .m = input.width,
                             .n = width(),
                             .k = op::kRows,
                             .a = lowering.output(input.layer),
                             .b = gradient,
                             .c = lowering.parameter_gradient(product.weight),
                             .accumulate = lowering.claim_parameter_gradient(product.weight)});
      if (input.gradient_width == 0) continue;
      lowering.emit(op::Gemm{.transpose_b = Transpose::kYes,
                             .m = op::kRows,
                             .n = input.gradient_width,
                             .k = width(),
                             .a = gradient,
                             .b = lowering.parameter(product.weight),
                             .c = lowering.output_gradient(input.layer),
                             .accumulate = lowering.claim_output_gradient(input.layer)});
    }
  }

  std::vector<Product> products_;
  std::optional<std::size_t> bias_;
  const kernels::Activation& activation_;
};

}  // namespace

LayerResult make_fc(Builder& builder) {
  const config::LayerConfig& config = builder.config();
  if (config.size == 0) return builder.error("key 'size' is missing: the number of outputs");
  if (config.weight.sparse || config.bias.sparse) {
    return builder.error("the parameters of an fc layer cannot be sparse");
  }
  PADDLE_TRY(const kernels::Activation* activation, builder.activation());
  std::vector<Product> products;
  std::size_t fan_in = 0;
  PADDLE_TRY(const std::vector<LayerInput> inputs, builder.layer_inputs());
  for (const LayerInput& input : inputs) {
    products.push_back({input, 0});
    fan_in += input.width;
  }
  for (std::size_t i = 0; i < products.size(); ++i) {
    PADDLE_TRY(products[i].weight,
               builder.parameter({config.weight,
                                  fmt::format("_{}.w{}", config.name, i),
                                  {products[i].input.width, config.size},
                                  1.0 / std::sqrt(static_cast<double>(fan_in))}));
  }
  std::optional<std::size_t> bias;
  if (config.has_bias) {
    PADDLE_TRY(bias, builder.parameter(
                         {config.bias, fmt::format("_{}.wbias", config.name), {config.size}, 0.0}));
  }
  return LayerResult(
      std::make_unique<FullyConnected>(builder, std::move(products), bias, *activation));
}

}  // namespace paddle::nn
