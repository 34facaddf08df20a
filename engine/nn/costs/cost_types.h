// Table of the cost layers, and their makers.
#pragma once

#include <array>

#include "engine/nn/layer.h"

namespace paddle::nn {

LayerResult make_softmax_cross_entropy(Builder& builder);
LayerResult make_binary_cross_entropy(Builder& builder);
LayerResult make_squared_error(Builder& builder);
LayerResult make_nce(Builder& builder);
LayerResult make_negative_sampling(Builder& builder);

inline constexpr auto kCostMakers = std::to_array<LayerMaker>({
    {"softmax_cross_entropy", make_softmax_cross_entropy},
    {"binary_cross_entropy", make_binary_cross_entropy},
    {"squared_error", make_squared_error},
    {"nce", make_nce},
    {"negative_sampling", make_negative_sampling},
});

}  // namespace paddle::nn
