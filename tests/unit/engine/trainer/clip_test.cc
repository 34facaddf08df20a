#include <cmath>
#include <span>

#include <gtest/gtest.h>

#include "engine/trainer/model.h"
#include "tests/unit/engine/pserver/parameters.h"

namespace paddle::trainer {
namespace {

// Norms 5, 10 and 2: a dense parameter, another, and a table's rows.
struct Clipped {
  std::vector<client::DenseParameter> dense = {{0, {}, {3, 0, -4}}, {1, {}, {0, 10}}};
  std::vector<client::SparseRows> rows = {{2, {7, 9}, {}, {1, -1, 1, 1, 0, 0}}};
  void clip(const wire::ParameterSet& set) {
    const std::vector<wire::ParameterSpec> specs(set.parameters().begin(), set.parameters().end());
    clip_gradients(set.optimizer(), specs, dense, rows);
  }
};

void expect_scaled(std::span<const float> found, std::span<const float> whole, double by) {
  ASSERT_EQ(found.size(), whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_NEAR(found[i], static_cast<double>(whole[i]) * by, 1e-6);
  }
}

TEST(Clip, NothingChangesWithoutALimitOrBelowIt) {
  auto set = test::small_set("sgd", 1);
  Clipped gradients;
  gradients.clip(set);
  EXPECT_EQ(gradients.dense[0].gradient, Clipped().dense[0].gradient);
  set.mutable_optimizer()->set_clip_norm(10);
  set.mutable_optimizer()->set_clip_global_norm(12);
  gradients.clip(set);
  EXPECT_EQ(gradients.dense[1].gradient, Clipped().dense[1].gradient);
  EXPECT_EQ(gradients.rows[0].gradients, Clipped().rows[0].gradients);
}

TEST(Clip, ByNormIsByParameter) {
  auto set = test::small_set("sgd", 1);
  set.mutable_optimizer()->set_clip_norm(4);
  set.mutable_parameters(2)->set_clip_norm(0.5F);
  Clipped gradients;
  gradients.clip(set);
  expect_scaled(gradients.dense[0].gradient, Clipped().dense[0].gradient, 4.0 / 5);
  expect_scaled(gradients.dense[1].gradient, Clipped().dense[1].gradient, 4.0 / 10);
  expect_scaled(gradients.rows[0].gradients, Clipped().rows[0].gradients, 0.5 / 2);
}

TEST(Clip, ByGlobalNormScalesAllAlikeAndComesAfterTheNorms) {
  auto set = test::small_set("sgd", 1);
  set.mutable_optimizer()->set_clip_global_norm(1);
  Clipped all;
  all.clip(set);
  const double by = 1 / std::sqrt(25.0 + 100 + 4);
  expect_scaled(all.dense[0].gradient, Clipped().dense[0].gradient, by);
  expect_scaled(all.dense[1].gradient, Clipped().dense[1].gradient, by);
  expect_scaled(all.rows[0].gradients, Clipped().rows[0].gradients, by);
  set.mutable_optimizer()->set_clip_norm(5);
  Clipped both;
  both.clip(set);
  expect_scaled(both.dense[1].gradient, Clipped().dense[1].gradient,
                0.5 / std::sqrt(25.0 + 25 + 4));
}

TEST(Clip, StaticParametersTakeNoPart) {
  auto set = test::small_set("sgd", 1);
  set.mutable_optimizer()->set_clip_global_norm(1);
  set.mutable_parameters(1)->set_is_static(true);
  Clipped gradients;
  gradients.clip(set);
  EXPECT_EQ(gradients.dense[1].gradient, Clipped().dense[1].gradient);
  expect_scaled(gradients.dense[0].gradient, Clipped().dense[0].gradient, 1 / std::sqrt(25.0 + 4));
}

TEST(Clip, WhatIsNotFiniteIsLeftToTheShard) {
  auto set = test::small_set("sgd", 1);
  set.mutable_optimizer()->set_clip_norm(1);
  set.mutable_optimizer()->set_clip_global_norm(1);
  Clipped gradients;
  gradients.dense[0].gradient[1] = NAN;
  gradients.clip(set);
  EXPECT_EQ(gradients.dense[0].gradient[0], 3.0F);
  EXPECT_TRUE(std::isnan(gradients.dense[0].gradient[1]));
}

}  // namespace
}  // namespace paddle::trainer
