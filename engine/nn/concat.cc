// concat: its inputs side by side. An embedding that nothing else reads writes its rows directly
// into this layer's output.
#include "engine/math/rows.h"
#include "engine/nn/lowering.h"
#include "engine/nn/makers.h"

namespace paddle::nn {
namespace {

class Concat final : public Layer {
 public:
  Concat(const Builder& builder, std::size_t width, std::vector<LayerInput> inputs)
      : Layer(builder.config().name, builder.index(), width) {
    std::size_t offset = 0;
    for (const LayerInput& input : inputs) {
      if (input.gradient_width > 0) gradient_width_ = offset + input.gradient_width;
      parts_.push_back({input, offset});
      offset += input.width;
    }
  }

  void redirect_inputs(std::span<const std::unique_ptr<Layer>> layers,
                       std::span<const std::uint32_t> readers) override {
    std::erase_if(parts_, [&](const Part& part) {
      const std::size_t layer = part.input.layer;
      return readers[layer] == 1 && layers[layer]->redirect_output({index(), part.offset, width()});
    });
  }

  std::size_t gradient_width() const override { return gradient_width_; }

  Status forward(const Run& run, LayerAccess access, double&) const override {
    for (const auto& [input, offset] : parts_) {
      kernels::copy_block(run.rows(), input.width, access.output(input.layer), input.width,
                          access.output(index()) + offset, width(), false);
    }
    return {};
  }

  void backward(const Run& run, LayerAccess access) const override {
    for (const auto& [input, offset] : parts_) {
      const bool add = access.claim_output_gradient(input.layer);
      kernels::copy_block(run.rows(), input.gradient_width,
                          access.output_gradient(index()) + offset, width(),
                          access.output_gradient(input.layer), input.width, add);
    }
  }

  void lower(Lowering& lowering) const override {
    for (const auto& [input, offset] : parts_) {
      lowering.emit(op::Copy{input.width, lowering.output(input.layer),
                             lowering.output(index()).columns_from(offset)});
    }
    lowering.at_backward([this, &lowering] {
      for (const auto& [input, offset] : parts_) {
        if (input.gradient_width == 0) continue;
        lowering.emit(op::Copy{
            input.gradient_width, lowering.output_gradient(index()).columns_from(offset),
            lowering.output_gradient(input.layer), lowering.claim_output_gradient(input.layer)});
      }
    });
  }

 private:
  struct Part {
    LayerInput input;
    std::size_t offset;
  };
  std::vector<Part> parts_;  // inputs to copy; others write into the output directly
  std::size_t gradient_width_ = 0;
};

}  // namespace

LayerResult make_concat(Builder& builder) {
  PADDLE_TRY(std::vector<LayerInput> inputs, builder.layer_inputs());
  std::size_t width = 0;
  for (const LayerInput& input : inputs) width += input.width;
  PADDLE_TRY_STATUS(builder.check_size(width));
  return LayerResult(std::make_unique<Concat>(builder, width, std::move(inputs)));
}

}  // namespace paddle::nn
