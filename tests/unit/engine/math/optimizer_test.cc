#include "engine/math/optimizer.h"

#include <cmath>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "tests/unit/engine/math/optimizer_reference.h"

namespace paddle::optim {
namespace {

constexpr std::size_t kSize = 37;  // whole vectors and a rest
constexpr int kUpdates = 50;
constexpr float kRate = 0.05F;

const std::vector<std::string> kMethods = [] {
  std::vector<std::string> names;
  for (const Method& method : methods()) names.emplace_back(method.name);
  return names;
}();

wire::Optimizer optimizer_of(const std::string& method) {
  wire::Optimizer optimizer;
  optimizer.set_method(method);
  optimizer.set_learning_rate(1);
  return optimizer;
}

wire::ParameterSpec plain_spec() {
  wire::ParameterSpec spec;
  spec.set_name("w");
  spec.set_learning_rate(1);
  return spec;
}

std::vector<float> normals(Rng& rng, std::size_t count) {
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

struct Updates {
  std::vector<float> start;
  std::vector<float> value;
  std::vector<float> state;
  std::vector<std::vector<float>> gradients;
};

Updates updates_of(const wire::Optimizer& optimizer, const wire::ParameterSpec& spec = plain_spec(),
                   std::vector<float> start = {}) {
  EXPECT_TRUE(validate(optimizer)) << validate(optimizer).error().message;
  const UpdateRule rule(optimizer, spec);
  Rng rng(3);
  Updates run;
  run.start = start.empty() ? normals(rng, kSize) : start;
  run.value = run.start;
  run.state.resize(kSize * rule.state_width());
  rule.start(run.value, run.state);
  for (std::uint64_t count = 1; count <= kUpdates; ++count) {
    run.gradients.push_back(normals(rng, kSize));
    rule.apply(kRate, count, run.value, run.gradients.back(), run.state);
  }
  return run;
}

// Compares the updates with the same ones in float64, element by element.
void compare(const wire::Optimizer& optimizer, const wire::ParameterSpec& spec = plain_spec()) {
  const Updates run = updates_of(optimizer, spec);
  for (std::size_t i = 0; i < kSize; ++i) {
    test::ReferenceElement element(optimizer, spec, static_cast<double>(run.start[i]));
    for (const auto& gradient : run.gradients) {
      element.update(static_cast<double>(kRate), static_cast<double>(gradient[i]));
    }
    ASSERT_NEAR(run.value[i], element.value(), 3e-5) << optimizer.method() << " element " << i;
    EXPECT_NE(run.value[i], run.start[i]);
    if (!has_average(optimizer)) continue;
    ASSERT_NEAR(run.state[run.state.size() - kSize + i], element.average(), 3e-5);
  }
}

TEST(Optimizer, EveryMethodMatchesItsFormula) {
  for (const std::string& method : kMethods) {
    wire::Optimizer optimizer = optimizer_of(method);
    if (method.find("momentum") != std::string::npos) optimizer.set_momentum(0.9F);
    compare(optimizer);
  }
}

TEST(Optimizer, EveryOptionReplacesItsDefault) {
  for (const std::string& method : kMethods) {
    wire::Optimizer optimizer = optimizer_of(method);
    optimizer.set_momentum(0.6F);
    optimizer.set_beta1(0.5F);
    optimizer.set_beta2(0.75F);
    optimizer.set_epsilon(0.125F);
    optimizer.set_rho(0.7F);
    optimizer.set_beta(0.25F);
    optimizer.set_weight_decay(0.5F);
    optimizer.set_centered(false);
    compare(optimizer);
  }
  wire::Optimizer zero = optimizer_of("adam");  // an explicit 0 replaces the default
  zero.set_beta1(0);
  compare(zero);
}

TEST(Optimizer, RateClippingAndDecayOfTheParameter) {
  for (const std::string& method : kMethods) {
    wire::ParameterSpec spec = plain_spec();
    spec.set_learning_rate(0.5F);
    spec.set_l2(0.25F);
    spec.set_l1(0.125F);
    spec.set_clip_value(0.75F);
    compare(optimizer_of(method), spec);
    // The optimizer's values hold where the parameter has none; a parameter's 0 is a value.
    wire::Optimizer defaults = optimizer_of(method);
    defaults.set_l1(0.125F);
    defaults.set_l2(0.25F);
    defaults.set_clip_value(0.75F);
    spec.clear_l2();
    compare(defaults, spec);
    spec.set_l1(0);
    spec.set_l2(0);
    spec.set_clip_value(0);
    const Updates without = updates_of(defaults, spec);
    wire::ParameterSpec plain = plain_spec();
    plain.set_learning_rate(0.5F);
    EXPECT_EQ(without.value, updates_of(optimizer_of(method), plain).value) << method;
  }
}

TEST(Optimizer, L1KeepsWeightsAtExactlyZero) {
  for (const std::string& method : kMethods) {
    wire::Optimizer optimizer = optimizer_of(method);
    optimizer.set_l1(1e4F);
    const Updates run = updates_of(optimizer);
    for (const float w : run.value) EXPECT_EQ(w, 0.0F) << method;
  }
}

// Algorithm 1 of McMahan et al. 2013, which has a constant learning rate and starts from 0.
TEST(Optimizer, FtrlIsTheAlgorithmOfThePaper) {
  wire::Optimizer optimizer = optimizer_of("ftrl");
  optimizer.set_l1(1.5F);
  optimizer.set_l2(0.5F);
  optimizer.set_beta(2);
  const Updates run = updates_of(optimizer, plain_spec(), std::vector<float>(kSize, 0.0F));
  int zeros = 0;
  for (std::size_t i = 0; i < kSize; ++i) {
    double n = 0;
    double z = 0;
    double w = 0;
    const auto alpha = static_cast<double>(kRate);
    for (const auto& gradient : run.gradients) {
      w = std::abs(z) <= 1.5 ? 0
                             : -(z - std::copysign(1.5, z)) / ((2.0 + std::sqrt(n)) / alpha + 0.5);
      const auto g = static_cast<double>(gradient[i]);
      const double sigma = (std::sqrt(n + g * g) - std::sqrt(n)) / alpha;
      z += g - sigma * w;
      n += g * g;
    }
    w = std::abs(z) <= 1.5 ? 0
                           : -(z - std::copysign(1.5, z)) / ((2.0 + std::sqrt(n)) / alpha + 0.5);
    ASSERT_NEAR(run.value[i], w, 1e-5);
    zeros += w == 0 ? 1 : 0;
  }
  EXPECT_GT(zeros, 0);
  EXPECT_LT(zeros, static_cast<int>(kSize));
}

// Decoupled decay is the same fraction of every weight, whatever its gradients; l2 is not, since
// adam divides it by the size of the gradients. A sparse row decays by the same rule.
TEST(Optimizer, AdamwDecaysAWeightByItsSizeAndNotByItsGradients) {
  constexpr int kSteps = 50;
  constexpr float kLambda = 0.5F;
  wire::Optimizer adamw = optimizer_of("adamw");
  adamw.set_weight_decay(kLambda);
  wire::Optimizer adam = optimizer_of("adam");
  adam.set_l2(kLambda);
  const auto after = [&](const wire::Optimizer& optimizer, float size) {
    const UpdateRule rule(optimizer, plain_spec());
    std::vector<float> value = {8};
    std::vector<float> state(rule.state_width(), 0.0F);
    for (std::uint64_t count = 1; count <= kSteps; ++count) {
      const float sign = count % 2 == 0 ? -1.0F : 1.0F;
      rule.apply(0.01F, count, value, std::vector<float>{sign * size}, state);
    }
    return value[0];
  };
  const double decayed = 8 * std::pow(1 - 0.01 * static_cast<double>(kLambda), kSteps);
  EXPECT_NEAR(after(adamw, 0), decayed, 1e-5);
  // Steps of alternating sign nearly cancel, and are alike for gradients of any size.
  EXPECT_NEAR(after(adamw, 1), after(adamw, 1000), 1e-3);
  EXPECT_NEAR(after(adamw, 1000), decayed, 0.1);
  EXPECT_GT(after(adam, 1000), 7.9);
  EXPECT_LT(after(adam, 0.01F), 7.6);
}

TEST(Optimizer, FtrlKeepsAValueThatNoGradientMovesUnderAnyLearningRate) {
  const UpdateRule rule(optimizer_of("ftrl"), plain_spec());
  std::vector<float> value = {0.75F, -3};
  std::vector<float> state(6, 0.0F);
  std::uint64_t count = 0;
  for (const float rate : {0.001F, 0.1F, 0.1F, 0.0F, 0.01F}) {
    rule.apply(rate, ++count, value, std::vector<float>{0, 0}, state);
    EXPECT_FLOAT_EQ(value[0], 0.75F);
    EXPECT_FLOAT_EQ(value[1], -3);
  }
}

TEST(Optimizer, ALearningRateOfZeroChangesNoValue) {
  for (const std::string& method : kMethods) {
    wire::ParameterSpec spec = plain_spec();
    spec.set_learning_rate(0);
    spec.set_l1(1);
    const Updates run = updates_of(optimizer_of(method), spec);
    EXPECT_EQ(run.value, run.start) << method;
  }
}

TEST(Optimizer, TheAverageIsThePlainMeanUntilItsWindowIsFull) {
  wire::Optimizer optimizer = optimizer_of("sgd");
  optimizer.mutable_average()->set_window(0.5F);
  optimizer.mutable_average()->set_window_min(10);
  const UpdateRule rule(optimizer, plain_spec());
  std::vector<float> value = {5};
  std::vector<float> state(1, 0.0F);
  rule.start(value, state);
  EXPECT_EQ(state[0], 5.0F);
  double sum = 0;
  for (std::uint64_t count = 1; count <= 10; ++count) {
    rule.apply(1, count, value, std::vector<float>{-1}, state);  // 6, 7, ...
    sum += static_cast<double>(value[0]);
    EXPECT_NEAR(state[0], sum / static_cast<double>(count), 1e-5);
  }
  rule.apply(1, 11, value, std::vector<float>{-1}, state);
  EXPECT_NEAR(state[0], 10.5 + (16 - 10.5) / 10, 1e-5);
}

TEST(Optimizer, TheAverageReachesBackOverItsShareOfTheUpdates) {
  wire::ModelAverage average;
  average.set_window(0.25F);
  EXPECT_EQ(average_weight(average, 1), 1.0F);
  EXPECT_FLOAT_EQ(average_weight(average, 10000), 1e-4F);
  EXPECT_FLOAT_EQ(average_weight(average, 30000), 1e-4F);
  EXPECT_FLOAT_EQ(average_weight(average, 80000), 1 / 20000.0F);
  EXPECT_FLOAT_EQ(average_weight(average, 1000000000), 1e-5F);
  average.set_window_max(100);
  EXPECT_FLOAT_EQ(average_weight(average, 1000000), 0.01F);
  for (const std::string& method : kMethods) {
    wire::Optimizer optimizer = optimizer_of(method);
    optimizer.mutable_average()->set_window(0.5F);
    optimizer.mutable_average()->set_window_min(7);
    optimizer.mutable_average()->set_window_max(20);
    compare(optimizer);
  }
}

// A shard updates block by block and a local run updates whole parameters, with the same bits.
TEST(Optimizer, Trap06SplittingAParameterDoesNotChangeABit) {
  for (const std::string& method : kMethods) {
    wire::Optimizer optimizer = optimizer_of(method);
    optimizer.set_momentum(0.5F);
    optimizer.mutable_average()->set_window(0.5F);
    const UpdateRule rule(optimizer, plain_spec());
    const std::size_t width = rule.state_width();
    Rng rng(11);
    std::vector<float> whole = normals(rng, kSize);
    std::vector<float> parts = whole;
    std::vector<float> whole_state(kSize * width, 0.0F);
    constexpr std::size_t kCut = 5;
    std::vector<float> first_state(kCut * width, 0.0F);
    std::vector<float> second_state((kSize - kCut) * width, 0.0F);
    for (std::uint64_t count = 1; count <= 20; ++count) {
      const std::vector<float> gradient = normals(rng, kSize);
      rule.apply(0.1F, count, whole, gradient, whole_state);
      const std::span<float> split(parts);
      const std::span<const float> slopes(gradient);
      rule.apply(0.1F, count, split.first(kCut), slopes.first(kCut), first_state);
      rule.apply(0.1F, count, split.subspan(kCut), slopes.subspan(kCut), second_state);
    }
    EXPECT_EQ(whole, parts) << method;
  }
}

TEST(Optimizer, StateWidths) {
  const std::map<std::string, std::size_t> widths = {{"sgd", 0},
                                                     {"momentum", 1},
                                                     {"torch_momentum", 1},
                                                     {"adagrad", 1},
                                                     {"decayed_adagrad", 1},
                                                     {"adadelta", 2},
                                                     {"rmsprop", 2},
                                                     {"adam", 2},
                                                     {"adamw", 2},
                                                     {"adamax", 2},
                                                     {"ftrl", 3}};
  std::map<std::string, std::size_t> found;
  for (const std::string& method : kMethods) found[method] = state_width(optimizer_of(method));
  EXPECT_EQ(found, widths);
  wire::Optimizer rmsprop = optimizer_of("rmsprop");
  rmsprop.set_centered(false);
  EXPECT_EQ(state_width(rmsprop), 1U);
  EXPECT_FALSE(same_state(rmsprop, optimizer_of("rmsprop")));
  rmsprop.set_momentum(0.9F);
  rmsprop.mutable_average()->set_window(0.5F);
  EXPECT_EQ(state_width(rmsprop), 3U);
}

TEST(Optimizer, StateContinuesUnderAnOptimizerWithTheSamePlanes) {
  wire::Optimizer adagrad = optimizer_of("adagrad");
  wire::Optimizer other = adagrad;
  other.set_learning_rate(2);
  other.set_epsilon(0.5F);
  EXPECT_TRUE(same_state(adagrad, other));
  EXPECT_FALSE(same_state(adagrad, optimizer_of("adadelta")));
  other.set_momentum(0.5F);
  EXPECT_FALSE(same_state(adagrad, other));
  adagrad.set_momentum(0.25F);
  EXPECT_TRUE(same_state(adagrad, other));
  other.mutable_average()->set_window(0.5F);
  EXPECT_FALSE(same_state(adagrad, other));
}

// Trainers push how far they moved; their own optimizer has already clipped and regularised.
TEST(Optimizer, ADeltaIsSubtractedAsItIs) {
  for (const std::string& method : kMethods) {
    wire::Optimizer optimizer = optimizer_of(method);
    optimizer.set_l1(0.5F);
    optimizer.set_l2(0.5F);
    optimizer.set_clip_value(0.125F);
    wire::ParameterSpec spec = plain_spec();
    spec.set_learning_rate(0.25F);
    spec.set_is_delta(true);
    const UpdateRule rule(optimizer, spec);
    std::vector<float> value = {4, -1};
    std::vector<float> state(2 * rule.state_width(), 0.0F);
    rule.apply(1, 1, value, std::vector<float>{1, -2}, state);
    EXPECT_EQ(value, (std::vector<float>{3, 1})) << method;
  }
}

TEST(Optimizer, RefusesUnknownMethodWithSuggestion) {
  const Status status = validate(optimizer_of("adagrd"));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Errc::kUsage);
  EXPECT_EQ(status.error().message, "unknown optimizer 'adagrd', did you mean 'adagrad'?");
}

TEST(Optimizer, RefusesValuesOutOfRange) {
  const auto refused = [](auto change) {
    wire::Optimizer optimizer = optimizer_of("adam");
    EXPECT_TRUE(validate(optimizer));
    change(optimizer);
    return !validate(optimizer);
  };
  EXPECT_FALSE(refused([](auto& o) { o.set_learning_rate(0); }));
  EXPECT_TRUE(refused([](auto& o) { o.set_learning_rate(-1); }));
  EXPECT_TRUE(refused([](auto& o) {
    o.set_method("ftrl");
    o.set_learning_rate(0);
  }));
  EXPECT_TRUE(refused([](auto& o) { o.set_learning_rate(NAN); }));
  EXPECT_TRUE(refused([](auto& o) { o.set_momentum(-0.5F); }));
  EXPECT_TRUE(refused([](auto& o) { o.set_beta1(1); }));
  EXPECT_TRUE(refused([](auto& o) { o.set_beta2(NAN); }));
  EXPECT_TRUE(refused([](auto& o) { o.set_rho(1); }));
  EXPECT_TRUE(refused([](auto& o) { o.set_epsilon(0); }));
  EXPECT_TRUE(refused([](auto& o) { o.set_beta(0); }));
  EXPECT_TRUE(refused([](auto& o) { o.set_weight_decay(1); }));
  EXPECT_TRUE(refused([](auto& o) { o.set_l1(-1); }));
  EXPECT_TRUE(refused([](auto& o) { o.set_l2(INFINITY); }));
  EXPECT_TRUE(refused([](auto& o) { o.set_clip_value(-1); }));
  EXPECT_TRUE(refused([](auto& o) { o.set_clip_norm(NAN); }));
  EXPECT_TRUE(refused([](auto& o) { o.set_clip_global_norm(-1); }));
  EXPECT_TRUE(refused([](auto& o) { o.mutable_schedule()->set_name("none"); }));
  EXPECT_TRUE(refused([](auto& o) { o.mutable_average()->set_window(1.5F); }));
  EXPECT_TRUE(refused([](auto& o) {
    o.mutable_average()->set_window_min(8);
    o.mutable_average()->set_window_max(7);
  }));
}

}  // namespace
}  // namespace paddle::optim
