// Tables of types: those of the configuration, which paddlectl checks, and those of the engine.
#include <algorithm>
#include <span>

#include <gtest/gtest.h>

#include "base/named_rows.h"
#include "engine/config/layer_keys.h"
#include "engine/math/activation.h"
#include "engine/nn/makers.h"

namespace paddle::nn {
namespace {

TEST(Types, EveryTypeThatMayBeWrittenCanBeMade) {
  const auto layers = std::span<const Maker<LayerResult>>(kLayerMakers);
  EXPECT_EQ(row_names(layers), row_names(config::layer_types()));
  const auto evaluators = std::span<const Maker<EvaluatorResult>>(kEvaluatorMakers);
  EXPECT_EQ(row_names(evaluators), row_names(config::evaluator_types()));
  EXPECT_TRUE(std::ranges::equal(row_names(kernels::activations()), config::kActivations));
}

}  // namespace
}  // namespace paddle::nn
