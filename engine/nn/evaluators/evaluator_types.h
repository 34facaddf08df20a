// Table of the evaluators, and their makers.
#pragma once

#include <array>

#include "engine/nn/evaluator.h"

namespace paddle::nn {

EvaluatorResult make_auc(Builder& builder);
EvaluatorResult make_classification_error(Builder& builder);
EvaluatorResult make_perplexity(Builder& builder);
EvaluatorResult make_precision_recall(Builder& builder);
EvaluatorResult make_rmse(Builder& builder);

inline constexpr auto kEvaluatorMakers = std::to_array<EvaluatorMaker>({
    {"auc", make_auc},
    {"classification_error", make_classification_error},
    {"perplexity", make_perplexity},
    {"precision_recall", make_precision_recall},
    {"rmse", make_rmse},
});

}  // namespace paddle::nn
