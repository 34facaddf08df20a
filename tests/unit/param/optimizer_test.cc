#include "engine/param/optimizer.h"

#include <array>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "engine/base/rng.h"

namespace paddle::param {
namespace {

constexpr std::size_t kSize = 37;
constexpr int kUpdates = 50;
constexpr double kRate = 0.05;
constexpr double kL2 = 0.01;

wire::Optimizer optimizer_of(const std::string& method) {
  wire::Optimizer optimizer;
  optimizer.set_method(method);
  optimizer.set_learning_rate(1);
  return optimizer;
}

// Runs kUpdates updates beside `reference(w, g, state, count)` in float64; g already has L2 in it.
template <class Reference>
void compare(const wire::Optimizer& optimizer, Reference reference) {
  ASSERT_TRUE(validate(optimizer));
  Rng rng(3);
  std::vector<float> value(kSize);
  for (float& w : value) w = static_cast<float>(rng.normal());
  const std::vector<float> start = value;
  std::vector<double> expected(value.begin(), value.end());
  std::vector<float> state(kSize * state_width(optimizer), 0.0F);
  std::vector<std::array<double, 2>> moments(kSize, {0, 0});
  for (int count = 1; count <= kUpdates; ++count) {
    std::vector<float> gradient(kSize);
    for (float& g : gradient) g = static_cast<float>(rng.normal());
    apply_update(optimizer,
                 {.learning_rate = static_cast<float>(kRate),
                  .l2 = static_cast<float>(kL2),
                  .count = static_cast<std::uint64_t>(count)},
                 value, gradient, state);
    for (std::size_t i = 0; i < kSize; ++i) {
      reference(expected[i], static_cast<double>(gradient[i]) + kL2 * expected[i], moments[i],
                count);
    }
  }
  for (std::size_t i = 0; i < kSize; ++i) {
    EXPECT_NEAR(value[i], expected[i], 2e-5) << optimizer.method() << " element " << i;
    EXPECT_NE(value[i], start[i]);
  }
}

using Moments = std::array<double, 2>;

TEST(OptimizerTest, SgdMatchesFloat64) {
  compare(optimizer_of("sgd"), [](double& w, double g, Moments&, int) { w -= kRate * g; });
}

TEST(OptimizerTest, MomentumMatchesFloat64) {
  wire::Optimizer optimizer = optimizer_of("momentum");
  optimizer.set_momentum(0.9F);
  compare(optimizer, [](double& w, double g, Moments& m, int) {
    m[0] = 0.9 * m[0] - kRate * g;
    w += m[0];
  });
}

TEST(OptimizerTest, AdagradMatchesDuchi2011) {
  compare(optimizer_of("adagrad"), [](double& w, double g, Moments& m, int) {
    m[0] += g * g;
    w -= kRate * g / (std::sqrt(m[0]) + 1e-6);
  });
}

TEST(OptimizerTest, AdamMatchesKingma2015) {
  compare(optimizer_of("adam"), [](double& w, double g, Moments& m, int count) {
    m[0] = 0.9 * m[0] + 0.1 * g;
    m[1] = 0.999 * m[1] + 0.001 * g * g;
    const double mean = m[0] / (1 - std::pow(0.9, count));
    const double square = m[1] / (1 - std::pow(0.999, count));
    w -= kRate * mean / (std::sqrt(square) + 1e-8);
  });
}

TEST(OptimizerTest, FieldsReplaceDefaults) {
  wire::Optimizer adam = optimizer_of("adam");
  adam.set_beta1(0.5F);
  adam.set_beta2(0.75F);
  adam.set_epsilon(0.125F);
  compare(adam, [](double& w, double g, Moments& m, int count) {
    m[0] = 0.5 * m[0] + 0.5 * g;
    m[1] = 0.75 * m[1] + 0.25 * g * g;
    w -= kRate * m[0] / (1 - std::pow(0.5, count)) /
         (std::sqrt(m[1] / (1 - std::pow(0.75, count))) + 0.125);
  });
  wire::Optimizer adagrad = optimizer_of("adagrad");
  adagrad.set_epsilon(0.25F);
  compare(adagrad, [](double& w, double g, Moments& m, int) {
    m[0] += g * g;
    w -= kRate * g / (std::sqrt(m[0]) + 0.25);
  });
}

// What a shard applies block by block must equal what a local run applies whole, to the bit.
TEST(OptimizerTest, SplittingAParameterDoesNotChangeABit) {
  for (const char* method : {"sgd", "momentum", "adagrad", "adam"}) {
    const wire::Optimizer optimizer = optimizer_of(method);
    const std::size_t width = state_width(optimizer);
    Rng rng(11);
    std::vector<float> whole(kSize);
    for (float& w : whole) w = static_cast<float>(rng.normal());
    std::vector<float> parts = whole;
    std::vector<float> whole_state(kSize * width, 0.0F);
    constexpr std::size_t kCut = 5;
    std::vector<float> first_state(kCut * width, 0.0F);
    std::vector<float> second_state((kSize - kCut) * width, 0.0F);
    for (std::uint64_t count = 1; count <= 20; ++count) {
      std::vector<float> gradient(kSize);
      for (float& g : gradient) g = static_cast<float>(rng.normal());
      const Update update{.learning_rate = 0.1F, .l2 = 0.001F, .count = count};
      apply_update(optimizer, update, whole, gradient, whole_state);
      const std::span<float> split(parts);
      const std::span<const float> slopes(gradient);
      apply_update(optimizer, update, split.first(kCut), slopes.first(kCut), first_state);
      apply_update(optimizer, update, split.subspan(kCut), slopes.subspan(kCut), second_state);
    }
    EXPECT_EQ(whole, parts) << method;
  }
}

TEST(OptimizerTest, StateWidths) {
  EXPECT_EQ(state_width(optimizer_of("sgd")), 0U);
  EXPECT_EQ(state_width(optimizer_of("momentum")), 1U);
  EXPECT_EQ(state_width(optimizer_of("adagrad")), 1U);
  EXPECT_EQ(state_width(optimizer_of("adam")), 2U);
}

TEST(OptimizerTest, RefusesUnknownMethodWithSuggestion) {
  const Status status = validate(optimizer_of("adagrd"));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Errc::kUsage);
  EXPECT_EQ(status.error().message, "unknown optimizer 'adagrd', did you mean 'adagrad'?");
}

TEST(OptimizerTest, RefusesValuesOutOfRange) {
  wire::Optimizer optimizer = optimizer_of("adam");
  optimizer.set_learning_rate(0);
  EXPECT_FALSE(validate(optimizer));
  optimizer.set_learning_rate(NAN);
  EXPECT_FALSE(validate(optimizer));
  optimizer.set_learning_rate(1);
  EXPECT_TRUE(validate(optimizer));
  optimizer.set_beta2(1);
  EXPECT_FALSE(validate(optimizer));
  optimizer.set_beta2(0);
  optimizer.set_momentum(-0.5F);
  EXPECT_FALSE(validate(optimizer));
}

}  // namespace
}  // namespace paddle::param
