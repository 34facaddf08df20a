// cosine_similarity: scale * cosine of the angle between two inputs; 0 where one of them is the
// zero vector.
#include <array>
#include <utility>

#include <fmt/format.h>

#include "engine/math/row_wise.h"
#include "engine/nn/lowering.h"
#include "engine/nn/makers.h"

namespace paddle::nn {
namespace {

class CosineSimilarity final : public Layer {
 public:
  CosineSimilarity(const Builder& builder, const std::vector<LayerInput>& inputs)
      : Layer(builder.config().name, builder.index(), 1),
        inputs_{inputs[0], inputs[1]},
        scale_(builder.config().scale != 0 ? builder.config().scale : 1.0F) {}

  Status forward(const Run& run, LayerAccess access, double&) const override {
    for (std::size_t row = 0; row < run.rows(); ++row) {
      access.output(index())[row] = scale_ * cosine_of(access, row).value();
    }
    return {};
  }

  void backward(const Run& run, LayerAccess access) const override {
    const std::size_t inner = inputs_[0].width;
    for (std::size_t i = 0; i < 2; ++i) {
      const bool add = access.claim_output_gradient(inputs_[i].layer);
      for (std::size_t row = 0; row < run.rows(); ++row) {
        kernels::Cosine cosine = cosine_of(access, row);
        if (i == 1) std::swap(cosine.a_norm, cosine.b_norm);
        kernels::cosine_backward(inner, cosine, scale_ * access.output_gradient(index())[row],
                                 access.output(inputs_[i].layer) + row * inner,
                                 access.output(inputs_[1 - i].layer) + row * inner, add,
                                 access.output_gradient(inputs_[i].layer) + row * inner);
      }
    }
  }

  void lower(Lowering& lowering) const override {
    const std::size_t inner = inputs_[0].width;
    const std::array<Region, 2> in{lowering.output(inputs_[0].layer),
                                   lowering.output(inputs_[1].layer)};
    lowering.emit(op::CosineSimilarity{inner, in[0], in[1], lowering.output(index()), scale_});
    lowering.at_backward([this, &lowering, inner, in] {
      for (std::size_t i = 0; i < 2; ++i) {
        if (inputs_[i].gradient_width == 0) continue;
        lowering.emit(op::CosineSimilarityBackward{
            .width = inner,
            .from = in[i],
            .other = in[1 - i],
            .gradient = lowering.output_gradient(index()),
            .to = lowering.output_gradient(inputs_[i].layer),
            .accumulate = lowering.claim_output_gradient(inputs_[i].layer),
            .scale = scale_});
      }
    });
  }

 private:
  kernels::Cosine cosine_of(LayerAccess& access, std::size_t row) const {
    const std::size_t inner = inputs_[0].width;
    return kernels::cosine(inner, access.output(inputs_[0].layer) + row * inner,
                           access.output(inputs_[1].layer) + row * inner);
  }

  std::array<LayerInput, 2> inputs_;
  float scale_;
};

}  // namespace

LayerResult make_cosine_similarity(Builder& builder) {
  PADDLE_TRY_STATUS(builder.check_input_count(2, 2));
  if (builder.config().size > 1) return builder.error("size must be 1: a cosine is one output");
  PADDLE_TRY(const std::vector<LayerInput> inputs, builder.layer_inputs());
  if (inputs[0].width != inputs[1].width) {
    return builder.error(fmt::format("input '{}' has width {}, input '{}' has width {}",
                                     builder.config().inputs[0], inputs[0].width,
                                     builder.config().inputs[1], inputs[1].width));
  }
  return LayerResult(std::make_unique<CosineSimilarity>(builder, inputs));
}

}  // namespace paddle::nn
