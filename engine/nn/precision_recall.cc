// precision_recall: precision, recall and F1 score. For one output they are the scores of "yes";
// for several, the means over the classes that at least one example has as label or prediction. A
// figure with denominator 0 is 0.
#include <fmt/format.h>

#include "engine/nn/evaluator_input.h"
#include "engine/nn/makers.h"

namespace paddle::nn {
namespace {

constexpr std::size_t kClassesMax = 1024;
constexpr std::size_t kPerClass = 3;  // true positives, predicted, labelled

double ratio(double part, double whole) {
  return whole > 0 ? part / whole : 0.0;
}

class PrecisionRecall final : public Evaluator {
 public:
  PrecisionRecall(const Builder& builder, EvaluatorInput input, Labels labels)
      : Evaluator(builder.config().name, input.layer, Reads::kOutputs, kPerClass * input.width, 0),
        input_(input),
        labels_(std::move(labels)) {}

  Status count(const Run& run, LayerAccess access, Counters counters) const override {
    const std::size_t width = input_.width;
    const float* x = access.output(input_.layer);
    const bool one_class = width > 1 && !labels_.are_floats();
    std::vector<float> labelled(width);
    for (std::size_t row = 0; row < run.rows(); ++row, x += width) {
      if (one_class) {
        PADDLE_TRY(const std::uint64_t label, labels_.class_of(run, run.begin + row));
        const std::size_t predicted = largest_output(x, width);
        add(counters, predicted, predicted == label, true, predicted == label);
        if (predicted != label) add(counters, label, false, false, true);
        continue;
      }
      PADDLE_TRY_STATUS(labels_.binary(run, run.begin + row, labelled.data()));
      for (std::size_t c = 0; c < width; ++c) {
        const bool predicted = x[c] > input_.threshold();
        const bool label = labelled[c] == 1.0F;
        add(counters, c, predicted && label, predicted, label);
      }
    }
    return {};
  }

  void values(Totals totals, std::vector<Value>& to) const override {
    double classes = 0;
    double precision = 0;
    double recall = 0;
    double f1 = 0;
    for (std::size_t c = 0; c < input_.width; ++c) {
      const auto right = static_cast<double>(totals.counts[c * kPerClass]);
      const auto predicted = static_cast<double>(totals.counts[c * kPerClass + 1]);
      const auto labelled = static_cast<double>(totals.counts[c * kPerClass + 2]);
      if (predicted + labelled == 0) continue;
      ++classes;
      precision += ratio(right, predicted);
      recall += ratio(right, labelled);
      f1 += 2 * right / (predicted + labelled);
    }
    const std::string prefix = name() == "precision_recall" ? "" : name() + ".";
    to.push_back({prefix + "precision", ratio(precision, classes), true});
    to.push_back({prefix + "recall", ratio(recall, classes), true});
    to.push_back({prefix + "f1", ratio(f1, classes), true});
  }

 private:
  static void add(const Counters& counters, std::size_t of, bool right, bool predicted,
                  bool labelled) {
    counters.counts[of * kPerClass] += right ? 1 : 0;
    counters.counts[of * kPerClass + 1] += predicted ? 1 : 0;
    counters.counts[of * kPerClass + 2] += labelled ? 1 : 0;
  }

  EvaluatorInput input_;
  Labels labels_;
};

}  // namespace

EvaluatorResult make_precision_recall(Builder& builder) {
  PADDLE_TRY(const EvaluatorInput input, evaluator_input(builder));
  if (input.width > kClassesMax) {
    return builder.error(
        fmt::format("its input has {} outputs; the limit is {} classes", input.width, kClassesMax));
  }
  PADDLE_TRY(Labels labels, Labels::make(builder, input.width));
  PADDLE_TRY(SlotRule rule, input.width > 1 && !labels.are_floats() ? labels.class_rule(builder)
                                                                    : labels.binary_rule(builder));
  builder.add_rule(std::move(rule));
  return EvaluatorResult(std::make_unique<PrecisionRecall>(builder, input, std::move(labels)));
}

}  // namespace paddle::nn
