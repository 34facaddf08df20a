// add and multiply: the sum or the product of its inputs, output by output.
#include "engine/math/elementwise.h"

#include <algorithm>

#include "engine/math/rows.h"
#include "engine/nn/lowering.h"
#include "engine/nn/makers.h"

namespace paddle::nn {
namespace {

class Elementwise final : public Layer {
 public:
  Elementwise(const Builder& builder, std::vector<LayerInput> inputs, bool is_product)
      : Layer(builder.config().name, builder.index(), inputs[0].width),
        inputs_(std::move(inputs)),
        is_product_(is_product) {}

  Status forward(const Run& run, LayerAccess access, double&) const override {
    const std::size_t count = run.rows() * width();
    float* out = access.output(index());
    std::copy_n(access.output(inputs_[0].layer), count, out);
    for (std::size_t i = 1; i < inputs_.size(); ++i) {
      const float* other = access.output(inputs_[i].layer);
      is_product_ ? kernels::multiply_by(count, other, out) : kernels::add(count, other, out);
    }
    return {};
  }

  void backward(const Run& run, LayerAccess access) const override {
    const std::size_t count = run.rows() * width();
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const float* gradient =
          is_product_ ? times_others(access, count, i) : access.output_gradient(index());
      const bool add = access.claim_output_gradient(inputs_[i].layer);
      kernels::copy_block(1, count, gradient, count, access.output_gradient(inputs_[i].layer),
                          count, add);
    }
  }

  void lower(Lowering& lowering) const override {
    std::vector<Region> in;
    for (const LayerInput& input : inputs_) in.push_back(lowering.output(input.layer));
    const Region out = lowering.output(index());
    if (is_product_) {
      lowering.emit(op::Product{width(), std::move(in), out});
    } else {
      lowering.emit(op::Sum{width(), std::move(in), out});
    }
    lowering.at_backward([this, &lowering] {
      for (std::size_t i = 0; i < inputs_.size(); ++i) lower_backward(lowering, i);
    });
  }

 private:
  void lower_backward(Lowering& lowering, std::size_t i) const {
    const LayerInput& input = inputs_[i];
    if (input.gradient_width == 0) return;
    const Region from = lowering.output_gradient(index());
    const Region to = lowering.output_gradient(input.layer);
    const bool add = lowering.claim_output_gradient(input.layer);
    if (!is_product_) return lowering.emit(op::Copy{input.gradient_width, from, to, add});
    std::vector<Region> factors{from};
    for (std::size_t j = 0; j < inputs_.size(); ++j) {
      if (j != i) factors.push_back(lowering.output(inputs_[j].layer));
    }
    lowering.emit(op::Product{input.gradient_width, std::move(factors), to, add});
  }

  // The gradient times all inputs but number i. It does not divide the product by input i, which
  // may be zero.
  const float* times_others(LayerAccess& access, std::size_t count, std::size_t i) const {
    float* product = access.scratch(index(), count);
    std::copy_n(access.output_gradient(index()), count, product);
    for (std::size_t j = 0; j < inputs_.size(); ++j) {
      if (j != i) kernels::multiply_by(count, access.output(inputs_[j].layer), product);
    }
    return product;
  }

  std::vector<LayerInput> inputs_;
  bool is_product_;
};

LayerResult make_elementwise(Builder& builder, bool is_product) {
  PADDLE_TRY(std::vector<LayerInput> inputs, builder.equal_inputs(2));
  return LayerResult(std::make_unique<Elementwise>(builder, std::move(inputs), is_product));
}

}  // namespace

LayerResult make_add(Builder& builder) {
  return make_elementwise(builder, false);
}

LayerResult make_multiply(Builder& builder) {
  return make_elementwise(builder, true);
}

}  // namespace paddle::nn
