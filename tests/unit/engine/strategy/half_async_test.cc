// half_async: how old a trainer's values are, and what its pushes carry.
#include <cmath>

#include <gtest/gtest.h>

#include "tests/unit/engine/client/client_fixture.h"

namespace paddle::strategy {

using client::client_of;
using client::dense_parameters;
using client::run_steps;
using client::some_rows;

namespace {

std::unique_ptr<client::ParameterClient> half_async_client(const wire::ParameterSet& set,
                                                           std::uint32_t max_merge,
                                                           std::uint32_t send_queue_size) {
  auto half = set;
  half.set_dense_strategy(wire::STRATEGY_HALF_ASYNC);
  half.set_sparse_strategy(wire::STRATEGY_HALF_ASYNC);
  return client_of(half, {}, {.max_merge = max_merge, .send_queue_size = send_queue_size});
}

// The gradients of run_steps depend on the step alone, so the values that a trainer sees tell how
// many pushes they are behind.
TEST(HalfAsync, GoesOnWithValuesAsOldAsItsQueueWhateverTheThreadsDo) {
  auto set = test::small_set("adagrad", 1, 3, 2);
  set.set_dense_strategy(wire::STRATEGY_ASYNC);
  set.set_sparse_strategy(wire::STRATEGY_ASYNC);
  constexpr int kSteps = 9;
  const auto direct = client_of(set);
  ASSERT_TRUE(direct->ready());
  auto dense = dense_parameters();
  auto rows = some_rows();
  ASSERT_TRUE(direct->pull_dense(dense));
  std::vector<LargeArray<float>> values{dense[0].value};  // after each step
  std::vector<std::vector<float>> row_values;             // before each step
  for (int step = 1; step <= kSteps; ++step) {
    run_steps(*direct, step, step, dense, rows, nullptr);
    values.push_back(dense[0].value);
    row_values.push_back(rows[0].values);
  }
  for (const std::uint32_t queue : {1U, 3U}) {
    const auto client = half_async_client(set, 1, queue);
    ASSERT_TRUE(client->ready());
    auto late = dense_parameters();
    auto late_rows = some_rows();
    ASSERT_TRUE(client->pull_dense(late));
    for (int step = 1; step <= kSteps; ++step) {
      run_steps(*client, step, step, late, late_rows, nullptr);
      const int seen = std::max(0, step - static_cast<int>(queue));
      EXPECT_EQ(late[0].value, values[static_cast<std::size_t>(seen)]) << "step " << step;
      // A pull overtakes the push of the batch before it.
      const int before = std::max(0, step - 2);
      EXPECT_EQ(late_rows[0].values, row_values[static_cast<std::size_t>(before)]);
    }
    const auto totals = client->finish_pass({});
    ASSERT_TRUE(totals);
    EXPECT_EQ(totals->samples, 4U * kSteps);
    EXPECT_EQ(totals->dense.pushes, static_cast<std::uint64_t>(kSteps));
    ASSERT_TRUE(client->pull_dense(late));
    EXPECT_EQ(late[0].value, values.back());  // every gradient was applied, once and in order
    ASSERT_TRUE(direct->pull_rows(rows));
    ASSERT_TRUE(client->pull_rows(late_rows));
    EXPECT_EQ(late_rows[0].values, rows[0].values);
    EXPECT_TRUE(client->leave());
  }
}

TEST(HalfAsync, Trap48RowsThatArePulledAheadAreAsOldAsOthers) {
  const auto set = test::small_set("adagrad", 1, 3, 2);
  std::vector<std::vector<float>> seen[2];
  for (const bool is_ahead : {false, true}) {
    const auto client = half_async_client(set, 1, 2);
    ASSERT_TRUE(client->ready());
    auto dense = dense_parameters();
    auto rows = some_rows();
    ASSERT_TRUE(client->pull_dense(dense));
    bool has_rows = false;
    for (int step = 1; step <= 12; ++step) {
      if (!has_rows) {
        ASSERT_TRUE(client->pull_rows(rows));
      }
      seen[is_ahead ? 1 : 0].push_back(rows[0].values);
      auto next = some_rows();
      has_rows = is_ahead && step % 4 != 0 && *client->pull_ahead(next);
      EXPECT_EQ(has_rows, is_ahead && step % 4 != 0);
      const float gradient = 0.1F * static_cast<float>(step);
      for (auto& one : dense) one.gradient.assign(one.value.size(), gradient);
      rows[0].gradients.assign(rows[0].values.size(), gradient);
      ASSERT_TRUE(client->push(4, 1, dense, rows));
      if (has_rows) rows = next;
    }
    ASSERT_TRUE(client->finish_pass({}));
    EXPECT_TRUE(client->leave());
  }
  EXPECT_EQ(seen[0], seen[1]);
}

TEST(HalfAsync, MergedBatchesAreCountedAndThePassEndsThem) {
  const auto client = half_async_client(test::small_set("sgd", 1, 2, 2), 3, 1);
  ASSERT_TRUE(client->ready());
  auto dense = dense_parameters();
  auto rows = some_rows();
  ASSERT_TRUE(client->pull_dense(dense));
  run_steps(*client, 1, 7, dense, rows, nullptr);
  const auto totals = client->finish_pass({});
  ASSERT_TRUE(totals);
  for (const client::PushCounts* counts : {&totals->dense, &totals->sparse}) {
    EXPECT_EQ(counts->pushes, 3U);
    EXPECT_EQ(counts->batches, 7U);
  }
  EXPECT_EQ(totals->samples, 28U);
  EXPECT_EQ(totals->discarded, 0U);
}

// Trap 12: a failed push is an error of the step, and ends training.
TEST(HalfAsync, Trap12AFailedPushIsReportedAndEndsTheJob) {
  const auto client = half_async_client(test::small_set("sgd", 1), 1, 1);
  ASSERT_TRUE(client->ready());
  auto dense = dense_parameters();
  auto rows = some_rows();
  ASSERT_TRUE(client->pull_dense(dense));
  ASSERT_TRUE(client->pull_rows(rows));
  for (client::DenseParameter& one : dense) one.gradient.assign(one.value.size(), std::nanf(""));
  rows[0].gradients.assign(rows[0].values.size(), 1);
  Status pushed = client->push(4, 1, dense, rows);
  if (pushed) pushed = client->push(4, 1, dense, rows);
  ASSERT_FALSE(pushed);
  EXPECT_NE(pushed.error().message.find("is not finite"), std::string::npos);
  EXPECT_FALSE(client->push(4, 1, dense, rows));
  EXPECT_FALSE(client->finish_pass({}));
}

}  // namespace
}  // namespace paddle::strategy
