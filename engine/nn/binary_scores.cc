#include "engine/nn/binary_scores.h"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/score_histogram.h"
#include "engine/math/costs.h"

namespace paddle::nn {

Result<BinaryScores> BinaryScores::make(Builder& builder) {
  PADDLE_TRY(const EvaluatorInput input, evaluator_input(builder));
  if (input.width > 2) {
    return builder.error(fmt::format("its input has {} outputs; {} needs one output or two",
                                     input.width, builder.config().type));
  }
  Kind kind = Kind::kNumbers;
  if (input.is_probability) {
    kind = Kind::kProbabilities;
  } else if (input.width == 2) {
    kind = Kind::kLogitsOfTwoClasses;
  } else if (builder.is_read_by(builder.config().inputs[0], "binary_cross_entropy")) {
    kind = Kind::kLogits;
  }
  PADDLE_TRY(Labels labels, Labels::make(builder, input.width, input.width == 2));
  PADDLE_TRY(SlotRule rule,
             input.width == 1 ? labels.binary_rule(builder) : labels.class_rule(builder));
  builder.add_rule(std::move(rule));
  return BinaryScores(input, kind, std::move(labels));
}

Result<std::vector<std::uint64_t>> BinaryScores::examples(const Run& run,
                                                          LayerAccess access) const {
  const float* x = access.output(input_.layer);
  std::array<float, 1> label{};
  std::vector<std::uint64_t> examples;
  examples.reserve(run.rows());
  for (std::size_t row = 0; row < run.rows(); ++row, x += input_.width) {
    if (input_.width == 1) {
      PADDLE_TRY_STATUS(labels_.binary(run, run.begin + row, label.data()));
    } else {
      PADDLE_TRY(const std::uint64_t id, labels_.class_of(run, run.begin + row));
      label[0] = static_cast<float>(id);
    }
    examples.push_back(std::uint64_t{key(x)} << 32U | (label[0] == 1.0F ? 1U : 0U));
  }
  return examples;
}

std::uint32_t BinaryScores::key(const float* x) const {
  const float of_one = x[input_.width - 1];
  switch (kind_) {
    case Kind::kProbabilities:
      return probability_key(of_one);
    case Kind::kLogits:
      return probability_key(kernels::sigmoid(of_one));
    case Kind::kLogitsOfTwoClasses:
      return probability_key(kernels::sigmoid(of_one - x[0]));
    case Kind::kNumbers:
      break;
  }
  return score_key(of_one);
}

}  // namespace paddle::nn
