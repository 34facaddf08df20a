#include "engine/nn/cost.h"

#include <fmt/format.h>

#include "engine/math/rows.h"

namespace paddle::nn {

void Cost::set_consumers(std::span<const std::uint32_t> consumers) {
  only_consumer_ = consumers[input_.layer] == 1;
}

// A cost that is the only consumer of its input writes directly into the input's gradient. Any
// other writes to scratch memory, which backward() adds to the gradient.
float* Cost::gradient_row(const Run& run, LayerAccess& access, std::size_t row) const {
  if (run.mode == Mode::kTest) return access.scratch(index(), input_.width);
  float* rows = only_consumer_ ? access.output_gradient(input_.layer)
                               : access.scratch(index(), run.rows() * input_.width);
  return rows + row * input_.width;
}

void Cost::backward(const Run& run, LayerAccess access) const {
  const bool add = access.claim_output_gradient(input_.layer);
  if (only_consumer_) return;  // the forward wrote the gradient
  const std::size_t count = run.rows() * input_.width;
  kernels::copy_block(1, count, access.scratch(index(), count), count,
                      access.output_gradient(input_.layer), count, add);
}

Region Cost::lower_gradient(Lowering& lowering) const {
  const Region rows = only_consumer_ ? lowering.output_gradient(input_.layer)
                                     : lowering.scratch(index(), input_.width);
  lowering.at_backward([this, &lowering, rows] {
    const bool add = lowering.claim_output_gradient(input_.layer);
    if (only_consumer_) return;
    lowering.emit(op::Copy{input_.width, rows, lowering.output_gradient(input_.layer), add});
  });
  return rows;
}

void add_weight_rule(Builder& builder) {
  const auto slot = builder.weight_slot();
  if (!slot) return;
  builder.add_rule({.layer = builder.config().name,
                    .subject = builder.subject(),
                    .slot_name = builder.slot_config(*slot).name,
                    .slot = *slot,
                    .is_label = true,
                    .is_weight = true});
}

Result<LayerInput> logits_input(Builder& builder) {
  PADDLE_TRY_STATUS(builder.check_input_count(1, 1));
  const std::string& name = builder.config().inputs[0];
  const std::string& activation = builder.config_of(name).activation;
  if (activation == "softmax" || activation == "sigmoid") {
    return builder.error(
        fmt::format("input '{}' already applies {}; this cost needs logits", name, activation),
        fmt::format("remove the activation of layer '{}'", name));
  }
  PADDLE_TRY(const LayerInput input, builder.layer_input(name));
  PADDLE_TRY_STATUS(builder.check_size(input.width));
  return input;
}

Status ClassLabels::fill(const Run& run, InputArrays& arrays) const {
  arrays.indices.clear();
  for (std::size_t example = run.begin; example < run.end; ++example) {
    PADDLE_TRY(const std::uint64_t label, labels_.class_of(run, example));
    arrays.indices.push_back(static_cast<std::uint32_t>(label));
  }
  return {};
}

Status FloatLabels::fill(const Run& run, InputArrays& arrays) const {
  arrays.floats.resize(run.rows() * width_);
  float* out = arrays.floats.data();
  for (std::size_t example = run.begin; example < run.end; ++example, out += width_) {
    PADDLE_TRY_STATUS((labels_.*write_)(run, example, out));
  }
  return {};
}

}  // namespace paddle::nn
