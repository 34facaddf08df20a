#include "engine/nn/plan/plan.h"

#include <gtest/gtest.h>

#include "tests/unit/engine/nn/plan/equal_plan.h"
#include "tests/unit/engine/nn/plan/random_network.h"

namespace paddle::nn {
namespace {

TEST(Plan, EqualsTheLayersInRandomNetworks) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    TestNetwork test(random_layers(seed), kRandomSlots, seed);
    for (auto& value : test.values) {
      for (std::size_t i = seed % 7; i < value.size(); i += 7) value[i] = -0.0F;
    }
    expect_equal_plan(test, random_batch(seed), seed);
    if (HasFailure()) FAIL() << "in the network of seed " << seed;
  }
}

}  // namespace
}  // namespace paddle::nn
