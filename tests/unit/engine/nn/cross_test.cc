// The cross layer against its formula in double precision, and the shapes it takes.
#include <cmath>

#include <gtest/gtest.h>

#include "tests/unit/engine/nn/gradient.h"

namespace paddle::nn {
namespace {

config::LayerConfig cross(std::string name, std::vector<std::string> inputs,
                          std::uint32_t rank = 0) {
  auto made = layer("cross", std::move(name), std::move(inputs));
  made.rank = rank;
  return made;
}

class Cross : public testing::TestWithParam<std::uint32_t> {};

TEST_P(Cross, GradientsOfTwoLayersOfACrossNetwork) {
  for (const bool has_bias : {false, true}) {
    auto first = cross("c1", {"x0"}, GetParam());
    auto second = cross("c2", {"x0", "c1"}, GetParam());
    first.has_bias = second.has_bias = has_bias;
    TestNetwork test({embedding("ea", {"a"}, 3, true), embedding("eb", {"b"}, 2, true),
                      concat("x0", {"ea", "eb"}), first, second, fc("out", {"c2"}, 3, "identity"),
                      cost("cost", "out", "label")},
                     kSlots);
    const std::size_t weights = GetParam() > 0 ? 2 : 1;
    EXPECT_EQ(test.network.parameters().size(), 2 + 2 * (weights + (has_bias ? 1 : 0)) + 2);
    expect_right_gradient(test, kFive);
    const double whole = test.run(kFive);
    EXPECT_NEAR(test.run(kFive, 3), whole, 1e-6);
  }
}

TEST_P(Cross, InputsThatOthersReadToo) {
  TestNetwork test({embedding("ea", {"a"}, 4, true), embedding("eb", {"b"}, 4, false),
                    cross("c", {"ea", "eb"}, GetParam()),
                    fc("out", {"c", "ea", "eb"}, 3, "identity"), cost("cost", "out", "label")},
                   kSlots);
  expect_right_gradient(test, kFive);
}

TEST_P(Cross, AFloatSlotMayBeTheInput) {
  TestNetwork test({cross("c", {"x"}, GetParam()), cost("cost", "c", "label")}, {"x:3", "label"});
  expect_right_gradient(test, {2, {{{}, {}, {}, {1, -2, 0.5F, 2, 1, -1}}, {{0, 2}}}});
}

INSTANTIATE_TEST_SUITE_P(FullAndLowRank, Cross, testing::Values(0, 2));

TEST(Cross, ShapesAndInitialValues) {
  TestNetwork test({cross("c", {"x"}, 2), cost("cost", "c", "label")}, {"x:4", "label"});
  const auto& parameters = test.network.parameters();
  ASSERT_EQ(parameters.size(), 3U);
  EXPECT_EQ(parameters[0].name(), "_c.w0");
  EXPECT_EQ(parameters[0].dims(0), 4U);
  EXPECT_EQ(parameters[0].dims(1), 2U);
  EXPECT_FLOAT_EQ(parameters[0].initial_std(), 0.5F);
  EXPECT_EQ(parameters[1].name(), "_c.w1");
  EXPECT_EQ(parameters[1].dims(0), 2U);
  EXPECT_EQ(parameters[1].dims(1), 4U);
  EXPECT_FLOAT_EQ(parameters[1].initial_std(), std::sqrt(0.5F));
  EXPECT_EQ(parameters[2].name(), "_c.wbias");
  EXPECT_EQ(parameters[2].initial_std(), 0.0F);
}

std::string cross_error(const config::LayerConfig& middle) {
  const auto built =
      Network::build({middle, cost("cost", "c", "label")}, parse_slots({"x:4", "y:3", "label"}));
  return built ? "none" : built.error().message;
}

TEST(Cross, MistakesAreNamed) {
  EXPECT_EQ(cross_error(cross("c", {})), "layer 'c': key 'input' is missing");
  EXPECT_EQ(cross_error(cross("c", {"x", "x", "x"})), "layer 'c': takes 2 inputs, 3 are given");
  EXPECT_EQ(cross_error(cross("c", {"x", "y"})),
            "layer 'c': input 'x' has width 4, input 'y' has width 3");
  EXPECT_EQ(cross_error(cross("c", {"y"}, 4)), "layer 'c': rank is 4, but its input has width 3");
  EXPECT_EQ(cross_error(cross("c", {"y"}, 3)), "none");
  auto sized = cross("c", {"x"});
  sized.size = 5;
  EXPECT_EQ(cross_error(sized), "layer 'c': size is 5, its inputs have width 4");
  auto sparse = cross("c", {"x"});
  sparse.weight.sparse = true;
  EXPECT_EQ(cross_error(sparse), "layer 'c': the parameters of a cross layer cannot be sparse");
  auto named = cross("c", {"x"}, 2);
  named.weight.name = "w";
  EXPECT_EQ(
      cross_error(named),
      "layer 'c': a weight name cannot be set together with 'rank', which makes two matrices");
  auto ranked = layer("add", "c", {"x", "x"});
  ranked.rank = 2;
  EXPECT_EQ(cross_error(ranked),
            "layer 'c': key 'rank' applies to layers of type cross, but this layer has type add");
}

}  // namespace
}  // namespace paddle::nn
