// Tables of the layers, costs and evaluators that a job may name. Each maker is defined in the
// source file of its type.
#pragma once

#include <array>
#include <memory>

#include "engine/nn/builder.h"
#include "engine/nn/evaluator.h"

namespace paddle::nn {

using LayerResult = Result<std::unique_ptr<Layer>>;
using EvaluatorResult = Result<std::unique_ptr<Evaluator>>;

// Layer `index`, under the slot's own name, for float slot `slot_index` of the batch. It has no
// configuration, so it is not in the table.
std::unique_ptr<Layer> make_data(const config::SlotConfig& slot, std::size_t index,
                                 std::size_t slot_index);
LayerResult make_embedding(Builder& builder);
LayerResult make_fc(Builder& builder);
LayerResult make_concat(Builder& builder);
LayerResult make_add(Builder& builder);
LayerResult make_multiply(Builder& builder);
LayerResult make_activation(Builder& builder);
LayerResult make_dropout(Builder& builder);
LayerResult make_layer_norm(Builder& builder);
LayerResult make_factorization_machine(Builder& builder);
LayerResult make_cosine_similarity(Builder& builder);
LayerResult make_cross(Builder& builder);

// Costs.
LayerResult make_softmax_cross_entropy(Builder& builder);
LayerResult make_binary_cross_entropy(Builder& builder);
LayerResult make_squared_error(Builder& builder);
LayerResult make_nce(Builder& builder);
LayerResult make_negative_sampling(Builder& builder);

EvaluatorResult make_auc(Builder& builder);
EvaluatorResult make_calibration(Builder& builder);
EvaluatorResult make_classification_error(Builder& builder);
EvaluatorResult make_gauc(Builder& builder);
EvaluatorResult make_perplexity(Builder& builder);
EvaluatorResult make_pr_auc(Builder& builder);
EvaluatorResult make_precision_recall(Builder& builder);
EvaluatorResult make_rmse(Builder& builder);

// Row of a table of types.
template <class Made>
struct Maker {
  std::string_view name;  // in config::layer_types() or config::evaluator_types()
  Made (*make)(Builder&);
};

inline constexpr auto kLayerMakers = std::to_array<Maker<LayerResult>>({
    {"embedding", make_embedding},
    {"fc", make_fc},
    {"concat", make_concat},
    {"add", make_add},
    {"multiply", make_multiply},
    {"activation", make_activation},
    {"dropout", make_dropout},
    {"layer_norm", make_layer_norm},
    {"factorization_machine", make_factorization_machine},
    {"cosine_similarity", make_cosine_similarity},
    {"cross", make_cross},
    {"softmax_cross_entropy", make_softmax_cross_entropy},
    {"binary_cross_entropy", make_binary_cross_entropy},
    {"squared_error", make_squared_error},
    {"nce", make_nce},
    {"negative_sampling", make_negative_sampling},
});

inline constexpr auto kEvaluatorMakers = std::to_array<Maker<EvaluatorResult>>({
    {"auc", make_auc},
    {"calibration", make_calibration},
    {"classification_error", make_classification_error},
    {"gauc", make_gauc},
    {"perplexity", make_perplexity},
    {"pr_auc", make_pr_auc},
    {"precision_recall", make_precision_recall},
    {"rmse", make_rmse},
});

}  // namespace paddle::nn
