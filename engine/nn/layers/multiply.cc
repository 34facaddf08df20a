// multiply: the product of its inputs, output by output.
#include <algorithm>

#include "engine/kernels/elementwise.h"
#include "engine/kernels/rows.h"
#include "engine/nn/builder.h"
#include "engine/nn/layers/layer_types.h"

namespace paddle::nn {
namespace {

class Multiply final : public Layer {
 public:
  Multiply(const Builder& builder, std::vector<LayerInput> inputs)
      : Layer(builder.config().name, builder.index(), inputs[0].width),
        inputs_(std::move(inputs)) {}

  Status forward(const Run& run, LayerAccess access, double&) const override {
    const std::size_t count = run.rows() * width();
    float* out = access.output(index());
    std::copy_n(access.output(inputs_[0].layer), count, out);
    for (std::size_t i = 1; i < inputs_.size(); ++i) {
      kernels::multiply_by(count, access.output(inputs_[i].layer), out);
    }
    return {};
  }

  // Each input gets the gradient times all the others; without a division, inputs may be zero.
  void backward(const Run& run, LayerAccess access) const override {
    const std::size_t count = run.rows() * width();
    float* product = access.scratch(index(), count);
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      std::copy_n(access.output_gradient(index()), count, product);
      for (std::size_t j = 0; j < inputs_.size(); ++j) {
        if (j != i) kernels::multiply_by(count, access.output(inputs_[j].layer), product);
      }
      const bool add = access.claim_output_gradient(inputs_[i].layer);
      kernels::copy_block(1, count, product, count, access.output_gradient(inputs_[i].layer), count,
                          add);
    }
  }

 private:
  std::vector<LayerInput> inputs_;
};

}  // namespace

LayerResult make_multiply(Builder& builder) {
  PADDLE_TRY(std::vector<LayerInput> inputs, builder.equal_inputs(2));
  return LayerResult(std::make_unique<Multiply>(builder, std::move(inputs)));
}

}  // namespace paddle::nn
