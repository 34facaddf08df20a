// Scores and labels of two classes, as auc, pr_auc, gauc and calibration count them.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "engine/nn/evaluator_input.h"
#include "engine/nn/labels.h"

namespace paddle::nn {

class BinaryScores {
 public:
  // The input and the label of the evaluator being built, with the rule for the label. kUsage: the
  // input has more than two outputs, or the label does not fit.
  static Result<BinaryScores> make(Builder& builder);

  std::size_t layer() const { return input_.layer; }
  // Whether the keys are those of probability_key(); otherwise they are those of score_key().
  bool are_probabilities() const { return kind_ != Kind::kNumbers; }
  // The run's examples as ScoreHistogram::add takes them: the key of the score in the high 32 bits,
  // the class in the low bit. kData: a label is neither 0 nor 1.
  Result<std::vector<std::uint64_t>> examples(const Run& run, LayerAccess access) const;

 private:
  // Kinds of a layer's outputs. The kind decides how the score of an example follows from them.
  enum class Kind {
    kProbabilities,       // probability of class 1: after a sigmoid, or second of a softmax
    kLogits,              // logit of class 1: the cost applies a sigmoid to it
    kLogitsOfTwoClasses,  // two logits; their difference is the logit of class 1
    kNumbers,             // any numbers: only their order counts
  };

  BinaryScores(EvaluatorInput input, Kind kind, Labels labels)
      : input_(input), kind_(kind), labels_(std::move(labels)) {}
  std::uint32_t key(const float* x) const;

  EvaluatorInput input_;
  Kind kind_;
  Labels labels_;
};

}  // namespace paddle::nn
