// Tables of types: those of the configuration, which paddlectl checks, and those of the engine.
#include <algorithm>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "engine/config/layer_keys.h"
#include "engine/kernels/activation.h"
#include "engine/nn/costs/cost_types.h"
#include "engine/nn/evaluators/evaluator_types.h"
#include "engine/nn/layers/layer_types.h"

namespace paddle::nn {
namespace {

TEST(Types, EveryTypeThatMayBeWrittenCanBeMade) {
  std::vector<std::string_view> layers;
  for (const LayerMaker& maker : kLayerMakers) {
    layers.push_back(maker.type);
    EXPECT_FALSE(config::find_type(config::layer_types(), maker.type)->reads("label"))
        << maker.type;
  }
  for (const LayerMaker& maker : kCostMakers) {
    layers.push_back(maker.type);
    EXPECT_TRUE(config::find_type(config::layer_types(), maker.type)->reads("label")) << maker.type;
  }
  EXPECT_EQ(layers, config::names_of(config::layer_types()));
  std::vector<std::string_view> evaluators;
  for (const EvaluatorMaker& maker : kEvaluatorMakers) evaluators.push_back(maker.type);
  EXPECT_EQ(evaluators, config::names_of(config::evaluator_types()));
  EXPECT_TRUE(std::ranges::equal(kernels::activation_names(), config::kActivations));
}

}  // namespace
}  // namespace paddle::nn
