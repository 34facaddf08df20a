// concat: its inputs side by side.
#include "engine/kernels/rows.h"
#include "engine/nn/builder.h"

namespace paddle::nn {
namespace {

class Concat final : public Layer {
 public:
  Concat(const Builder& builder, std::size_t width, std::vector<LayerInput> inputs)
      : Layer(builder.config().name, builder.index(), width), inputs_(std::move(inputs)) {
    std::size_t begin = 0;
    for (const LayerInput& input : inputs_) {
      if (input.gradient_width > 0) gradient_width_ = begin + input.gradient_width;
      begin += input.width;
    }
  }

  std::size_t gradient_width() const override { return gradient_width_; }

  Status forward(const Run& run, LayerAccess access, double&) const override {
    float* out = access.output(index());
    for (const LayerInput& input : inputs_) {
      kernels::copy_block(run.rows(), input.width, access.output(input.layer), input.width, out,
                          width(), false);
      out += input.width;
    }
    return {};
  }

  void backward(const Run& run, LayerAccess access) const override {
    const float* gradient = access.output_gradient(index());
    for (const LayerInput& input : inputs_) {
      const bool add = access.claim_output_gradient(input.layer);
      kernels::copy_block(run.rows(), input.gradient_width, gradient, width(),
                          access.output_gradient(input.layer), input.width, add);
      gradient += input.width;
    }
  }

 private:
  std::vector<LayerInput> inputs_;
  std::size_t gradient_width_ = 0;
};

}  // namespace

LayerResult make_concat(Builder& builder) {
  PADDLE_TRY(std::vector<LayerInput> inputs, builder.layer_inputs());
  std::size_t width = 0;
  for (const LayerInput& input : inputs) width += input.width;
  PADDLE_TRY_STATUS(builder.size_is(width));
  return LayerResult(std::make_unique<Concat>(builder, width, std::move(inputs)));
}

}  // namespace paddle::nn
