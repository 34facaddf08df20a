// dropout: in training, zeroes units with probability rate and scales the others by 1 / (1 - rate).
#include <algorithm>

#include <fmt/format.h>

#include "base/rng.h"
#include "engine/math/elementwise.h"
#include "engine/nn/lowering.h"
#include "engine/nn/makers.h"

namespace paddle::nn {
namespace {

class Dropout final : public Layer {
 public:
  Dropout(const Builder& builder, LayerInput input)
      : Layer(builder.config().name, builder.index(), input.width),
        input_(input),
        rate_(builder.config().rate) {}

  Status forward(const Run& run, LayerAccess access, double&) const override {
    const std::size_t count = run.rows() * width();
    const float* in = access.output(input_.layer);
    float* out = access.output(index());
    if (run.mode == Mode::kTest) {
      std::copy_n(in, count, out);
      return {};
    }
    float* mask = access.scratch(index(), count);
    for (std::size_t row = 0; row < run.rows(); ++row) {
      kernels::dropout_mask(example_stream(run.seed, name(), run.begin + row), rate_, width(),
                            mask + row * width());
    }
    kernels::multiply(count, in, mask, false, out);
    return {};
  }

  void backward(const Run& run, LayerAccess access) const override {
    const std::size_t count = run.rows() * width();
    const bool add = access.claim_output_gradient(input_.layer);
    kernels::multiply(count, access.output_gradient(index()), access.scratch(index(), count), add,
                      access.output_gradient(input_.layer));
  }

  void lower(Lowering& lowering) const override {
    const Region mask = lowering.scratch(index(), width());
    lowering.emit(op::Dropout{.width = width(),
                              .from = lowering.output(input_.layer),
                              .mask = mask,
                              .to = lowering.output(index()),
                              .rate = rate_,
                              .layer = stable_hash(name())});
    lowering.at_backward([this, &lowering, mask] {
      if (input_.gradient_width == 0) return;
      lowering.emit(op::Product{input_.gradient_width,
                                {lowering.output_gradient(index()), mask},
                                lowering.output_gradient(input_.layer),
                                lowering.claim_output_gradient(input_.layer)});
    });
  }

 private:
  LayerInput input_;
  float rate_;
};

}  // namespace

LayerResult make_dropout(Builder& builder) {
  PADDLE_TRY_STATUS(builder.check_input_count(1, 1));
  const float rate = builder.config().rate;
  if (!(rate >= 0 && rate < 1)) {
    return builder.error(fmt::format("rate is {}, it must be at least 0 and below 1", rate));
  }
  PADDLE_TRY(const LayerInput input, builder.layer_input(builder.config().inputs[0]));
  PADDLE_TRY_STATUS(builder.check_size(input.width));
  return LayerResult(std::make_unique<Dropout>(builder, input));
}

}  // namespace paddle::nn
