#include "engine/math/schedule.h"

#include <cmath>

#include <gtest/gtest.h>

#include "engine/math/power.h"

namespace paddle::optim {
namespace {

wire::Optimizer with_schedule(const std::string& name, double a = 0, double b = 0) {
  wire::Optimizer optimizer;
  optimizer.set_learning_rate(0.5F);
  optimizer.mutable_schedule()->set_name(name);
  optimizer.mutable_schedule()->set_a(a);
  optimizer.mutable_schedule()->set_b(b);
  return optimizer;
}

void add_step(wire::Optimizer& optimizer, std::uint64_t until, float rate) {
  auto* const step = optimizer.mutable_schedule()->add_steps();
  step->set_until(until);
  step->set_rate(rate);
}

float at(const wire::Optimizer& optimizer, std::uint64_t samples, std::uint64_t pass = 0) {
  EXPECT_TRUE(validate(optimizer.schedule()));
  return learning_rate(optimizer, {samples, pass});
}

TEST(Schedule, ConstantIsWhatIsGivenAndTheDefault) {
  EXPECT_EQ(at(with_schedule("constant"), 1000000), 0.5F);
  EXPECT_EQ(at(with_schedule(""), 1000000, 7), 0.5F);
}

TEST(Schedule, Poly) {
  const auto optimizer = with_schedule("poly", 0.01, 0.5);
  EXPECT_FLOAT_EQ(at(optimizer, 0), 0.5F);
  EXPECT_FLOAT_EQ(at(optimizer, 300), 0.25F);   // 0.5 (1 + 3)^-0.5
  EXPECT_FLOAT_EQ(at(optimizer, 9900), 0.05F);  // 0.5 (1 + 99)^-0.5
}

TEST(Schedule, CaffePolyEndsAtZero) {
  const auto optimizer = with_schedule("caffe_poly", 1000, 2);
  EXPECT_FLOAT_EQ(at(optimizer, 0), 0.5F);
  EXPECT_FLOAT_EQ(at(optimizer, 500), 0.125F);
  EXPECT_FLOAT_EQ(at(optimizer, 900), 0.005F);
  EXPECT_EQ(at(optimizer, 1000), 0.0F);
  EXPECT_EQ(at(optimizer, 5000), 0.0F);
}

TEST(Schedule, ExpFallsSmoothlyAndDiscexpInSteps) {
  const auto smooth = with_schedule("exp", 0.25, 100);
  EXPECT_FLOAT_EQ(at(smooth, 50), 0.25F);
  EXPECT_FLOAT_EQ(at(smooth, 100), 0.125F);
  EXPECT_FLOAT_EQ(at(smooth, 200), 0.03125F);
  const auto stairs = with_schedule("discexp", 0.25, 100);
  EXPECT_FLOAT_EQ(at(stairs, 99), 0.5F);
  EXPECT_FLOAT_EQ(at(stairs, 100), 0.125F);
  EXPECT_FLOAT_EQ(at(stairs, 199), 0.125F);
  EXPECT_FLOAT_EQ(at(stairs, 200), 0.03125F);
}

TEST(Schedule, LinearStopsAtItsFloor) {
  const auto optimizer = with_schedule("linear", 1e-3, 0.1);
  EXPECT_FLOAT_EQ(at(optimizer, 100), 0.4F);
  EXPECT_FLOAT_EQ(at(optimizer, 400), 0.1F);
  EXPECT_FLOAT_EQ(at(optimizer, 4000), 0.1F);
}

TEST(Schedule, ManualGoesBySamplesAndPassManualByPasses) {
  for (const char* name : {"manual", "pass_manual"}) {
    auto optimizer = with_schedule(name);
    add_step(optimizer, 10, 1.0F);
    add_step(optimizer, 20, 0.5F);
    add_step(optimizer, 30, 0.25F);
    const bool by_pass = optimizer.schedule().name() == "pass_manual";
    const auto position = [&](std::uint64_t n) {
      return by_pass ? at(optimizer, 1000, n) : at(optimizer, n, 1000);
    };
    EXPECT_EQ(position(0), 0.5F);
    EXPECT_EQ(position(10), 0.5F);
    EXPECT_EQ(position(11), 0.25F);
    EXPECT_EQ(position(20), 0.25F);
    EXPECT_EQ(position(30), 0.125F);
    EXPECT_EQ(position(31), 0.125F);
  }
}

TEST(Schedule, WarmUpRisesLinearlyUnderAnySchedule) {
  auto constant = with_schedule("constant");
  constant.mutable_schedule()->set_warmup_samples(200);
  EXPECT_FLOAT_EQ(at(constant, 50), 0.125F);
  EXPECT_FLOAT_EQ(at(constant, 199), 0.5F * 199 / 200);
  EXPECT_EQ(at(constant, 200), 0.5F);
  EXPECT_EQ(at(constant, 300), 0.5F);
  auto poly = with_schedule("poly", 0.01, 0.5);
  poly.mutable_schedule()->set_warmup_samples(600);
  EXPECT_FLOAT_EQ(at(poly, 300), 0.125F);
}

TEST(Schedule, RefusesWhatHasNoMeaning) {
  EXPECT_EQ(validate(with_schedule("pol").schedule()).error().message,
            "unknown learning_rate_schedule 'pol', did you mean 'poly'?");
  EXPECT_FALSE(validate(with_schedule("poly", NAN, 1).schedule()));
  EXPECT_FALSE(validate(with_schedule("poly", 1, INFINITY).schedule()));
  EXPECT_FALSE(validate(with_schedule("linear", -1, 0).schedule()));
  EXPECT_FALSE(validate(with_schedule("caffe_poly", 0, 1).schedule()));
  EXPECT_FALSE(validate(with_schedule("exp", 0, 1).schedule()));
  EXPECT_FALSE(validate(with_schedule("exp", 2, 1).schedule()));
  EXPECT_FALSE(validate(with_schedule("discexp", 0.5, 0).schedule()));
  EXPECT_FALSE(validate(with_schedule("manual").schedule()));
  auto manual = with_schedule("manual");
  add_step(manual, 10, 1);
  add_step(manual, 10, 1);
  EXPECT_FALSE(validate(manual.schedule()));
  auto negative = with_schedule("pass_manual");
  add_step(negative, 10, -1);
  EXPECT_FALSE(validate(negative.schedule()));
}

// Validation refuses every extreme that would give no number.
TEST(Schedule, IsFiniteWhereverItIsDefined) {
  for (const char* name : {"poly", "caffe_poly", "exp", "discexp", "linear"}) {
    for (const double a : {1e-300, 1e-18, 0.5, 1.0, 1e18}) {
      for (const double b : {0.0, 1.0, 1e18}) {
        const auto optimizer = with_schedule(name, a, b);
        if (!validate(optimizer.schedule())) continue;
        for (const std::uint64_t n : {0ULL, 1ULL, 1000000007ULL, ~0ULL}) {
          const float rate = at(optimizer, n);
          EXPECT_TRUE(rate >= 0 && std::isfinite(rate)) << name << " " << a << " " << b << " " << n;
        }
      }
    }
  }
}

TEST(Power, AgreesWithTheLibrary) {
  for (double base = 1e-300; base < 1e300; base *= 7.3) {
    for (const double exponent : {-1.0, -0.5, 0.0, 1e-9, 0.1, 0.75, 1.0, 1.02}) {
      const double expected = std::pow(base, exponent);
      EXPECT_NEAR(real_power(base, exponent) / expected, 1, 1e-12) << base << "^" << exponent;
    }
  }
  EXPECT_EQ(real_power(0.5, 1e9), 0.0);
  EXPECT_EQ(real_power(2.0, 1e9), INFINITY);
  for (const std::uint64_t exponent : {0ULL, 1ULL, 2ULL, 3ULL, 10ULL, 1000ULL, 123456ULL}) {
    const double expected = std::pow(0.9999, static_cast<double>(exponent));
    EXPECT_NEAR(integer_power(0.9999, exponent) / expected, 1, 1e-10) << exponent;
  }
  EXPECT_EQ(integer_power(0.9, ~0ULL), 0.0);
}

}  // namespace
}  // namespace paddle::optim
