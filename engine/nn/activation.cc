// activation: a function of each output of its input; softmax is a function of all outputs of an
// example together.
#include "engine/math/activation.h"

#include <algorithm>

#include "engine/math/rows.h"
#include "engine/nn/lowering.h"
#include "engine/nn/makers.h"

namespace paddle::nn {
namespace {

class ActivationLayer final : public Layer {
 public:
  ActivationLayer(const Builder& builder, LayerInput input, const kernels::Activation& activation)
      : Layer(builder.config().name, builder.index(), input.width),
        input_(input),
        activation_(activation) {}

  Status forward(const Run& run, LayerAccess access, double&) const override {
    float* out = access.output(index());
    std::copy_n(access.output(input_.layer), run.rows() * width(), out);
    kernels::bias_activate(activation_, run.rows(), width(), nullptr, out);
    return {};
  }

  void backward(const Run& run, LayerAccess access) const override {
    float* gradient = access.output_gradient(index());
    const std::size_t kept = activation_.reads_input ? input_.layer : index();
    kernels::activation_backward(activation_, run.rows(), width(), access.output(kept), gradient);
    const std::size_t count = run.rows() * width();
    const bool add = access.claim_output_gradient(input_.layer);
    kernels::copy_block(1, count, gradient, count, access.output_gradient(input_.layer), count,
                        add);
  }

  void lower(Lowering& lowering) const override {
    const Region in = lowering.output(input_.layer);
    const Region out = lowering.output(index());
    lowering.emit(op::Activate{&activation_, width(), in, out});
    lowering.at_backward([this, &lowering, kept = activation_.reads_input ? in : out] {
      if (input_.gradient_width == 0) return;
      const Region gradient = lowering.output_gradient(index());
      if (activation_.backward != nullptr) {
        lowering.emit(op::ActivateBackward{&activation_, width(), kept, gradient});
      }
      lowering.emit(op::Copy{input_.gradient_width, gradient,
                             lowering.output_gradient(input_.layer),
                             lowering.claim_output_gradient(input_.layer)});
    });
  }

 private:
  LayerInput input_;
  const kernels::Activation& activation_;
};

}  // namespace

LayerResult make_activation(Builder& builder) {
  PADDLE_TRY_STATUS(builder.check_input_count(1, 1));
  if (builder.config().activation.empty()) return builder.error("key 'activation' is missing");
  PADDLE_TRY(const kernels::Activation* activation, builder.activation());
  PADDLE_TRY(const LayerInput input, builder.layer_input(builder.config().inputs[0]));
  PADDLE_TRY_STATUS(builder.check_size(input.width));
  return LayerResult(std::make_unique<ActivationLayer>(builder, input, *activation));
}

}  // namespace paddle::nn
