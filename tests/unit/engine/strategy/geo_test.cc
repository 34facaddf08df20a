// geo: a client whose trainer updates a copy of its own.
#include <cmath>

#include <gtest/gtest.h>

#include "tests/unit/engine/client/client_fixture.h"

namespace paddle::strategy {

using client::client_of;
using client::dense_parameters;
using client::run_steps;
using client::some_rows;

namespace {

// The updates of one trainer, pushed every third batch, add up to those that shards would make.
TEST(GeoPath, OneTrainerEndsWhereItsShardsWould) {
  for (const char* const method : {"sgd", "adagrad", "adam"}) {
    SCOPED_TRACE(method);
    auto set = test::small_set(method, 1, 3, 2);
    wire::LearningRateSchedule& schedule = *set.mutable_optimizer()->mutable_schedule();
    schedule.set_name("poly");  // by samples, counted across passes
    schedule.set_a(0.5);
    schedule.set_b(1);
    schedule.set_warmup_samples(3 * client::kSamples);
    const auto direct = client_of(set);
    ASSERT_TRUE(direct->ready());
    auto dense = dense_parameters();
    auto rows = some_rows();
    ASSERT_TRUE(direct->pull_dense(dense));
    run_steps(*direct, 1, 7, dense, rows, nullptr);
    ASSERT_TRUE(direct->finish_pass({}));
    run_steps(*direct, 8, 9, dense, rows, nullptr);
    ASSERT_TRUE(direct->pull_rows(rows));

    set.set_dense_strategy(wire::STRATEGY_GEO);
    set.set_sparse_strategy(wire::STRATEGY_GEO);
    set.set_update_frequency(3);
    for (auto& spec : *set.mutable_parameters()) spec.set_is_delta(true);
    const auto client = client_of(set);
    ASSERT_TRUE(client->ready());
    auto own = dense_parameters();
    auto own_rows = some_rows();
    ASSERT_TRUE(client->pull_dense(own));
    run_steps(*client, 1, 7, own, own_rows, nullptr);
    const auto totals = client->finish_pass({});
    ASSERT_TRUE(totals) << totals.error().message;
    EXPECT_EQ(totals->samples, 28U);
    for (const client::PushCounts* counts : {&totals->dense, &totals->sparse}) {
      EXPECT_EQ(counts->pushes, 3U);
      EXPECT_EQ(counts->batches, 7U);
    }
    EXPECT_EQ(client->progress().samples, 28U);
    ASSERT_TRUE(client->pull_dense(own));
    run_steps(*client, 8, 9, own, own_rows, nullptr);
    ASSERT_TRUE(client->finish_pass({}));
    EXPECT_EQ(client->progress().samples, 36U);
    EXPECT_EQ(client->progress().passes, 2U);
    ASSERT_TRUE(client->pull_averages(own, own_rows));  // the shards' values
    for (std::size_t i = 0; i < dense.size(); ++i) {
      for (std::size_t e = 0; e < dense[i].value.size(); ++e) {
        EXPECT_NEAR(own[i].value[e], dense[i].value[e], 1e-5);
      }
    }
    for (std::size_t e = 0; e < rows[0].values.size(); ++e) {
      EXPECT_NEAR(own_rows[0].values[e], rows[0].values[e], 1e-5);
    }
  }
}

// Tests and snapshots use the shards' values: a window that is open stays with the trainer.
TEST(GeoPath, PullingForATestLeavesTheTrainersOwnModel) {
  auto set = test::small_set("sgd", 1);
  set.set_dense_strategy(wire::STRATEGY_GEO);
  set.set_sparse_strategy(wire::STRATEGY_GEO);
  set.set_update_frequency(2);
  for (auto& spec : *set.mutable_parameters()) spec.set_is_delta(true);
  const auto client = client_of(set);
  ASSERT_TRUE(client->ready());
  auto dense = dense_parameters();
  auto rows = some_rows();
  ASSERT_TRUE(client->pull_dense(dense));
  const LargeArray<float> first = dense[0].value;
  run_steps(*client, 1, 1, dense, rows, nullptr);
  const LargeArray<float> own = dense[0].value;
  auto tested = dense_parameters();
  ASSERT_TRUE(client->pull_averages(tested, rows));
  EXPECT_EQ(tested[0].value, first);
  ASSERT_TRUE(client->pull_dense(tested));
  EXPECT_EQ(tested[0].value, own);
  EXPECT_NE(own, first);
  run_steps(*client, 2, 2, dense, rows, nullptr);
  ASSERT_TRUE(client->pull_averages(tested, rows));
  EXPECT_NE(tested[0].value, first);
  // The shards have all moves of the only trainer.
  for (std::size_t i = 0; i < first.size(); ++i)
    EXPECT_NEAR(tested[0].value[i], dense[0].value[i], 1e-6);
  ASSERT_TRUE(client->leave());
}

// Averages are over the shards' values after each push.
TEST(GeoPath, AveragesAreOverPushes) {
  auto set = test::small_set("adam", 1, 3, 2);
  set.set_dense_strategy(wire::STRATEGY_GEO);
  set.set_sparse_strategy(wire::STRATEGY_GEO);
  set.set_update_frequency(2);
  set.mutable_optimizer()->mutable_average()->set_window(1);
  for (auto& spec : *set.mutable_parameters()) spec.set_is_delta(true);
  const auto client = client_of(set);
  ASSERT_TRUE(client->ready());
  auto dense = dense_parameters();
  auto rows = some_rows();
  ASSERT_TRUE(client->pull_dense(dense));
  std::vector<double> sum(24);
  for (int push = 0; push < 3; ++push) {
    run_steps(*client, 2 * push + 1, 2 * push + 2, dense, rows, nullptr);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += dense[0].value[i];
  }
  auto averages = dense_parameters();
  ASSERT_TRUE(client->pull_averages(averages, rows));
  for (std::size_t i = 0; i < sum.size(); ++i) {
    EXPECT_NEAR(averages[0].value[i], sum[i] / 3, 1e-5);
    EXPECT_GT(std::abs(averages[0].value[i] - dense[0].value[i]), 1e-3);
  }
  ASSERT_TRUE(client->leave());
}

}  // namespace
}  // namespace paddle::strategy
