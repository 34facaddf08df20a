// add: the sum of its inputs, output by output.
#include <algorithm>

#include "engine/kernels/elementwise.h"
#include "engine/kernels/rows.h"
#include "engine/nn/builder.h"
#include "engine/nn/layers/layer_types.h"

namespace paddle::nn {
namespace {

class Add final : public Layer {
 public:
  Add(const Builder& builder, std::vector<LayerInput> inputs)
      : Layer(builder.config().name, builder.index(), inputs[0].width),
        inputs_(std::move(inputs)) {}

  Status forward(const Run& run, LayerAccess access, double&) const override {
    const std::size_t count = run.rows() * width();
    float* out = access.output(index());
    std::copy_n(access.output(inputs_[0].layer), count, out);
    for (std::size_t i = 1; i < inputs_.size(); ++i) {
      kernels::add(count, access.output(inputs_[i].layer), out);
    }
    return {};
  }

  void backward(const Run& run, LayerAccess access) const override {
    const std::size_t count = run.rows() * width();
    for (const LayerInput& input : inputs_) {
      const bool add = access.claim_output_gradient(input.layer);
      kernels::copy_block(1, count, access.output_gradient(index()), count,
                          access.output_gradient(input.layer), count, add);
    }
  }

 private:
  std::vector<LayerInput> inputs_;
};

}  // namespace

LayerResult make_add(Builder& builder) {
  PADDLE_TRY(std::vector<LayerInput> inputs, builder.equal_inputs(2));
  return LayerResult(std::make_unique<Add>(builder, std::move(inputs)));
}

}  // namespace paddle::nn
