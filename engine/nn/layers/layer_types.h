// Table of the layers that are not costs, and their makers.
#pragma once

#include <array>
#include <memory>

#include "engine/config/data_config.h"
#include "engine/nn/layer.h"

namespace paddle::nn {

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

inline constexpr auto kLayerMakers = std::to_array<LayerMaker>({
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
});

}  // namespace paddle::nn
