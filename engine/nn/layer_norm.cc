// layer_norm: shifts and scales each example's inputs to mean 0 and variance 1, then multiplies
// them by a learned gain {width} and adds a learned bias {width}. It computes the same in training
// and in tests, and needs no statistics of other examples or trainers.
#include <fmt/format.h>

#include "engine/math/row_wise.h"
#include "engine/nn/lowering.h"
#include "engine/nn/makers.h"

namespace paddle::nn {
namespace {

constexpr float kEpsilonDefault = 1e-5F;

class LayerNorm final : public Layer {
 public:
  LayerNorm(const Builder& builder, LayerInput input, std::size_t gain, std::size_t bias)
      : Layer(builder.config().name, builder.index(), input.width),
        input_(input),
        gain_(gain),
        bias_(bias),
        epsilon_(builder.config().epsilon > 0 ? builder.config().epsilon : kEpsilonDefault) {}

  Status forward(const Run& run, LayerAccess access, double&) const override {
    kernels::layer_norm(run.rows(), width(), epsilon_, access.output(input_.layer),
                        run.parameters.dense[gain_].data(), run.parameters.dense[bias_].data(),
                        access.output(index()), access.scratch(index(), 2 * run.rows()));
    return {};
  }

  void backward(const Run& run, LayerAccess access) const override {
    const bool add = access.claim_output_gradient(input_.layer);
    kernels::layer_norm_backward(
        run.rows(), width(), access.output(input_.layer), run.parameters.dense[gain_].data(),
        access.scratch(index(), 2 * run.rows()), access.output_gradient(index()), add,
        access.output_gradient(input_.layer), access.zeroed_parameter_gradient(gain_),
        access.zeroed_parameter_gradient(bias_));
  }

  void lower(Lowering& lowering) const override {
    const Region in = lowering.output(input_.layer);
    const Region gain = lowering.parameter(gain_);
    const Region statistics = lowering.scratch(index(), 2);
    lowering.emit(op::LayerNorm{.width = width(),
                                .from = in,
                                .gain = gain,
                                .bias = lowering.parameter(bias_),
                                .to = lowering.output(index()),
                                .statistics = statistics,
                                .epsilon = epsilon_});
    lowering.at_backward([this, &lowering, in, gain, statistics] {
      lowering.emit(
          op::LayerNormBackward{.width = width(),
                                .from = in,
                                .gain = gain,
                                .statistics = statistics,
                                .gradient = lowering.output_gradient(index()),
                                .to = lowering.output_gradient(input_.layer),
                                .accumulate = lowering.claim_output_gradient(input_.layer),
                                .gain_gradient = lowering.zeroed_parameter_gradient(gain_),
                                .bias_gradient = lowering.zeroed_parameter_gradient(bias_)});
    });
  }

 private:
  LayerInput input_;
  std::size_t gain_;
  std::size_t bias_;
  float epsilon_;
};

}  // namespace

LayerResult make_layer_norm(Builder& builder) {
  const config::LayerConfig& config = builder.config();
  PADDLE_TRY_STATUS(builder.check_input_count(1, 1));
  if (config.weight.sparse || config.bias.sparse) {
    return builder.error("the parameters of a layer_norm layer cannot be sparse");
  }
  PADDLE_TRY(const LayerInput input, builder.layer_input(config.inputs[0]));
  PADDLE_TRY_STATUS(builder.check_size(input.width));
  config::ParameterAttributes gain = config.weight;
  if (gain.initial_mean == 0 && gain.initial_std < 0) gain.initial_mean = 1;
  PADDLE_TRY(const std::size_t weight,
             builder.parameter({gain, fmt::format("_{}.w0", config.name), {input.width}, 0.0}));
  PADDLE_TRY(
      const std::size_t bias,
      builder.parameter({config.bias, fmt::format("_{}.wbias", config.name), {input.width}, 0.0}));
  if (weight == bias) return builder.error("weight and bias must have different names");
  return LayerResult(std::make_unique<LayerNorm>(builder, input, weight, bias));
}

}  // namespace paddle::nn
