// softmax_cross_entropy: the cost -ln softmax(logits)[label] of each example.
#include <fmt/format.h>

#include "engine/kernels/rows.h"
#include "engine/kernels/softmax.h"
#include "engine/nn/builder.h"

namespace paddle::nn {
namespace {

class SoftmaxCrossEntropy final : public Layer {
 public:
  SoftmaxCrossEntropy(const Builder& builder, LayerInput input, std::size_t label_slot)
      : Layer(builder.config().name, builder.index(), 0),
        input_(input),
        label_slot_(label_slot),
        label_name_(builder.config().label) {}

  void set_consumers(std::span<const std::uint32_t> consumers) override {
    only_consumer_ = consumers[input_.layer] == 1;
  }

  Status forward(const Run& run, LayerAccess access, double& cost_sum) const override {
    const Slot& labels = run.batch.slots[label_slot_];
    const float* logits = access.output(input_.layer);
    const std::size_t width = input_.width;
    const bool train = run.mode == Mode::kTrain;
    access.predictions().resize(run.rows());
    for (std::size_t row = 0; row < run.rows(); ++row) {
      const std::size_t example = run.begin + row;
      std::size_t at = example;
      if (!labels.offsets.empty()) {
        at = labels.offsets[example];
        if (labels.offsets[example + 1] - at != 1) {
          return Error{Errc::kData,
                       fmt::format("layer '{}': an example has {} labels in slot '{}'", name(),
                                   labels.offsets[example + 1] - at, label_name_),
                       "give each example one label"};
        }
      }
      const std::uint64_t label = labels.ids[at];
      if (label >= width) {
        return Error{Errc::kData,
                     fmt::format("layer '{}': label {} in slot '{}' is not below the {} classes",
                                 name(), label, label_name_, width),
                     ""};
      }
      const kernels::SoftmaxCost result = kernels::softmax_cross_entropy(
          width, logits + row * width, label, train, gradient_row(run, access, row));
      cost_sum += result.cost;
      access.predictions()[row] = static_cast<std::uint32_t>(result.prediction);
      if (result.prediction != label) access.add_classification_error();
    }
    return {};
  }

  void backward(const Run& run, LayerAccess access) const override {
    const bool add = access.claim_output_gradient(input_.layer);
    if (only_consumer_) return;  // forward left the gradient in place
    const std::size_t count = run.rows() * input_.width;
    kernels::copy_block(1, count, access.scratch(index(), count), count,
                        access.output_gradient(input_.layer), count, add);
  }

 private:
  // The gradient is made while a row of logits is in the first-level cache, and where it is needed
  // when nobody else adds to that.
  float* gradient_row(const Run& run, LayerAccess access, std::size_t row) const {
    if (run.mode == Mode::kTest) return access.scratch(index(), input_.width);
    float* rows = only_consumer_ ? access.output_gradient(input_.layer)
                                 : access.scratch(index(), run.rows() * input_.width);
    return rows + row * input_.width;
  }

  LayerInput input_;
  std::size_t label_slot_;
  std::string label_name_;
  bool only_consumer_ = false;
};

}  // namespace

LayerResult make_softmax_cross_entropy(Builder& builder) {
  const config::LayerConfig& config = builder.config();
  PADDLE_TRY_STATUS(builder.need_inputs(1, 1));
  if (config.label.empty()) {
    return builder.error("key 'label' is missing: the data slot with the right answers");
  }
  PADDLE_TRY(const LayerInput input, builder.layer_input(config.inputs[0]));
  PADDLE_TRY_STATUS(builder.size_is(input.width));
  PADDLE_TRY(const std::size_t label, builder.slot(config.label, "label", Builder::SlotKind::kIds));
  return LayerResult(std::make_unique<SoftmaxCrossEntropy>(builder, input, label));
}

}  // namespace paddle::nn
