// auc: the area under the ROC curve of a probability, from counts in 4096 equal buckets as in
// Fluid. The error is at most half the fraction of pairs that fall into one bucket.
#include <array>

#include <fmt/format.h>

#include "engine/kernels/cross_entropy.h"
#include "engine/nn/evaluators/evaluator_input.h"
#include "engine/nn/makers.h"

namespace paddle::nn {
namespace {

constexpr std::size_t kBuckets = 4096;

class Auc final : public Evaluator {
 public:
  Auc(const Builder& builder, EvaluatorInput input, Labels labels)
      : Evaluator(builder.config().name, input.layer, Reads::kOutputs, 2 * kBuckets, 0),
        input_(input),
        labels_(std::move(labels)) {}

  Status count(const Run& run, LayerAccess access, Counters counters) const override {
    const float* x = access.output(input_.layer);
    std::array<float, 1> label{};
    for (std::size_t row = 0; row < run.rows(); ++row, x += input_.width) {
      if (input_.width == 1) {
        PADDLE_TRY_STATUS(labels_.binary(run, run.begin + row, label.data()));
      } else {
        PADDLE_TRY(const std::uint64_t id, labels_.class_of(run, run.begin + row));
        label[0] = static_cast<float>(id);
      }
      const std::size_t side = label[0] == 1.0F ? kBuckets : 0;
      ++counters.counts[side + bucket(probability(x))];
    }
    return {};
  }

  // Trapezoids from the largest probability down; 0.5 when there is no pair to compare.
  void values(Totals totals, std::vector<Value>& to) const override {
    double positives = 0;
    double negatives = 0;
    double area = 0;
    for (std::size_t i = kBuckets; i-- > 0;) {
      const auto negative = static_cast<double>(totals.counts[i]);
      const auto positive = static_cast<double>(totals.counts[kBuckets + i]);
      area += negative * (positives + positive / 2);
      positives += positive;
      negatives += negative;
    }
    const double pairs = positives * negatives;
    to.push_back({name(), pairs > 0 ? area / pairs : 0.5, true});
  }

 private:
  // Probability of class 1.
  float probability(const float* x) const {
    const float of_one = x[input_.width - 1];
    if (input_.is_probability) return of_one;
    return kernels::sigmoid(input_.width == 1 ? of_one : of_one - x[0]);
  }

  // NaN counts as 0.
  static std::size_t bucket(float probability) {
    const float scaled = probability * static_cast<float>(kBuckets);
    if (!(scaled > 0)) return 0;
    return scaled < static_cast<float>(kBuckets) ? static_cast<std::size_t>(scaled) : kBuckets - 1;
  }

  EvaluatorInput input_;
  Labels labels_;
};

}  // namespace

EvaluatorResult make_auc(Builder& builder) {
  PADDLE_TRY(const EvaluatorInput input, evaluator_input(builder));
  if (input.width > 2) {
    return builder.error(fmt::format(
        "its input has {} outputs, AUC is of one probability or of two classes", input.width));
  }
  PADDLE_TRY(Labels labels, Labels::make(builder, input.width, input.width == 2));
  PADDLE_TRY(SlotRule rule,
             input.width == 1 ? labels.binary_rule(builder) : labels.class_rule(builder));
  builder.add_rule(std::move(rule));
  return EvaluatorResult(std::make_unique<Auc>(builder, input, std::move(labels)));
}

}  // namespace paddle::nn
