// ParameterClient against real shards in this process.
#include <cmath>
#include <filesystem>
#include <limits>
#include <thread>

#include <gtest/gtest.h>

#include "engine/net/local_link.h"
#include "engine/param/initial.h"
#include "engine/param/optimizer.h"
#include "engine/param/parameter_set.h"
#include "engine/param/schedule.h"
#include "engine/param/snapshot.h"
#include "engine/pserver/shard.h"
#include "engine/trainer/client_plan.h"
#include "engine/trainer/half_async_client.h"
#include "engine/trainer/local_client.h"
#include "engine/trainer/parameter_client.h"
#include "tests/unit/pserver/parameters.h"

namespace paddle::trainer {
namespace {

std::unique_ptr<net::Link> local_shard(std::uint32_t index, bool is_sparse) {
  auto shard = std::make_shared<pserver::Shard>(
      pserver::ShardOptions{.index = index, .is_sparse = is_sparse, .epoch = 3});
  return net::make_local_link(std::move(shard), {Role::kTrainer, 0});
}

using Work = std::function<void(std::size_t)>;

std::unique_ptr<ParameterClient> client_of(const wire::ParameterSet& set,
                                           std::uint64_t transfer_bytes = 32U << 20U,
                                           std::function<void(const Work&)> both = {}) {
  std::vector<std::unique_ptr<net::Link>> dense;
  std::vector<std::unique_ptr<net::Link>> sparse;
  for (std::uint32_t i = 0; i < set.dense_shards(); ++i) dense.push_back(local_shard(i, false));
  for (std::uint32_t i = 0; i < set.sparse_shards(); ++i) sparse.push_back(local_shard(i, true));
  auto client = ParameterClient::join(
      {.parameters = set, .transfer_bytes = transfer_bytes, .both = std::move(both)},
      std::move(dense), std::move(sparse));
  EXPECT_TRUE(client) << client.error().message;
  return client ? *std::move(client) : nullptr;
}

constexpr std::uint64_t kSamples = 4;  // of each push

// Everything an optimizer can have around its formula.
wire::ParameterSet full_set(const std::string& method, std::uint32_t dense_shards = 1,
                            std::uint32_t sparse_shards = 1) {
  auto set = test::small_set(method, 1, dense_shards, sparse_shards);
  wire::Optimizer& optimizer = *set.mutable_optimizer();
  optimizer.set_momentum(0.5F);
  optimizer.set_l1(1e-4F);
  optimizer.set_clip_value(1);
  optimizer.mutable_schedule()->set_name("poly");
  optimizer.mutable_schedule()->set_a(0.1);
  optimizer.mutable_schedule()->set_b(0.5);
  optimizer.mutable_schedule()->set_warmup_samples(9);
  optimizer.mutable_average()->set_window(0.5F);
  optimizer.mutable_average()->set_window_min(2);
  return set;
}

// What a job looks like without any pserver.
struct Direct {
  explicit Direct(const wire::ParameterSet& parameters) : set(parameters) {
    for (int i = 0; i < 2; ++i) {
      dense[i].resize(param::element_count(set.parameters(i)));
      param::fill_initial(dense[i], set.parameters(i), set.seed(), 0);
      dense_state[i].resize(dense[i].size() * param::state_width(set.optimizer()));
      rule(i).start(dense[i], dense_state[i]);
    }
    row.resize(3);
    param::fill_initial_row(row, set.parameters(2), set.seed(), 99);
    row_state.resize(3 * param::state_width(set.optimizer()));
    rule(2).start(row, row_state);
  }
  param::UpdateRule rule(int parameter) const {
    return {set.optimizer(), set.parameters(parameter)};
  }
  void step(std::uint64_t count, std::span<const DenseParameter> gradients,
            std::span<const float> row_gradient) {
    const float rate = param::learning_rate(set.optimizer(), {count * kSamples, 0});
    for (int i = 0; i < 2; ++i) {
      rule(i).apply(rate, count, dense[i], gradients[static_cast<std::size_t>(i)].gradient,
                    dense_state[i]);
    }
    rule(2).apply(rate, count, row, row_gradient, row_state);
  }
  wire::ParameterSet set;
  std::vector<float> dense[2];
  std::vector<float> dense_state[2];
  std::vector<float> row;
  std::vector<float> row_state;
};

// Steps [from, to] of a made-up job; the gradients depend on the step alone.
void run_steps(ParameterClient& client, int from, int to, std::vector<DenseParameter>& dense,
               std::vector<SparseRows>& rows, Direct* direct) {
  for (int step = from; step <= to; ++step) {
    for (DenseParameter& parameter : dense) {
      parameter.gradient.resize(parameter.parameter == 0 ? 24 : 4);
      for (std::size_t i = 0; i < parameter.gradient.size(); ++i) {
        parameter.gradient[i] = 0.37F * static_cast<float>(step) - 0.11F * static_cast<float>(i);
      }
    }
    ASSERT_TRUE(client.pull_rows(rows));
    if (direct != nullptr) {
      EXPECT_EQ(std::vector<float>(rows[0].values.begin() + 3, rows[0].values.begin() + 6),
                direct->row);
    }
    rows[0].gradients.assign(rows[0].ids.size() * 3, 0.01F * static_cast<float>(step));
    ASSERT_TRUE(client.push(kSamples, 2.5, dense, rows));
    if (direct == nullptr) continue;
    direct->step(static_cast<std::uint64_t>(step), dense,
                 std::span<const float>(rows[0].gradients).subspan(3, 3));
    EXPECT_EQ(dense[0].value, direct->dense[0]);
    EXPECT_EQ(dense[1].value, direct->dense[1]);
  }
}

std::vector<DenseParameter> dense_parameters() {
  return {{0, {}, {}}, {1, {}, {}}};
}
std::vector<SparseRows> some_rows() {
  return {{2, {5, 99, 1ULL << 63U, ~0ULL}, {}, {}}};
}

TEST(ClientThreads, PushDenseParametersAndRowsAtTheSameTime) {
  const auto set = full_set("adam", 2, 2);
  std::size_t calls = 0;
  const auto client = client_of(set, 32, [&calls](const Work& work) {
    ++calls;
    std::thread other([&work] { work(1); });
    work(0);
    work(2);  // of a larger team
    other.join();
  });
  ASSERT_TRUE(client);
  ASSERT_TRUE(client->ready());
  Direct direct(set);
  auto dense = dense_parameters();
  auto rows = some_rows();
  ASSERT_TRUE(client->pull_dense(dense));
  run_steps(*client, 1, 5, dense, rows, &direct);
  EXPECT_EQ(calls, 5U);
  for (float* const one : {&rows[0].gradients[4], &dense[1].gradient[2]}) {
    const float good = std::exchange(*one, std::numeric_limits<float>::quiet_NaN());
    const Status pushed = client->push(kSamples, 2.5, dense, rows);
    ASSERT_FALSE(pushed);
    EXPECT_NE(pushed.error().message.find("not finite"), std::string::npos);
    *one = good;
  }
}

class Client : public testing::TestWithParam<std::tuple<std::string, wire::Strategy>> {};

TEST_P(Client, OneTrainerIsBitEqualToApplyingUpdatesDirectly) {
  auto set = full_set(std::get<0>(GetParam()), 3, 2);
  set.set_dense_strategy(std::get<1>(GetParam()));
  set.set_sparse_strategy(std::get<1>(GetParam()));
  const auto client = client_of(set);
  ASSERT_TRUE(client);
  ASSERT_TRUE(client->ready());
  Direct direct(set);
  auto dense = dense_parameters();
  auto rows = some_rows();
  ASSERT_TRUE(client->pull_dense(dense));
  EXPECT_EQ(dense[0].value, direct.dense[0]);
  run_steps(*client, 1, 5, dense, rows, &direct);
  const auto totals = client->finish_pass({});
  ASSERT_TRUE(totals);
  EXPECT_EQ(totals->samples, 20U);
  EXPECT_EQ(totals->cost, 12.5);
  EXPECT_EQ(totals->discarded, 0U);
  run_steps(*client, 6, 6, dense, rows, &direct);
  EXPECT_EQ(client->finish_pass({})->samples, 4U);
  EXPECT_TRUE(client->leave());
}

TEST_P(Client, Trap09SnapshotGoesOnBitEqualOnAnotherNumberOfPorts) {
  const std::string directory = testing::TempDir() + "/client_snapshot_" + std::get<0>(GetParam()) +
                                std::to_string(std::get<1>(GetParam()));
  std::filesystem::remove_all(directory);
  Direct direct(full_set(std::get<0>(GetParam())));
  auto dense = dense_parameters();
  auto rows = some_rows();
  {
    auto set = full_set(std::get<0>(GetParam()), 3, 2);
    set.set_dense_strategy(std::get<1>(GetParam()));
    const auto client = client_of(set);
    ASSERT_TRUE(client->ready());
    run_steps(*client, 1, 4, dense, rows, &direct);
    ASSERT_TRUE(client->finish_pass({}));
    const Status saved = client->save_snapshot(directory);
    ASSERT_TRUE(saved) << saved.error().message;
  }
  const auto client = client_of(full_set(std::get<0>(GetParam()), 1, 5));
  const Status loaded = client->load_snapshot(directory);
  ASSERT_TRUE(loaded) << loaded.error().message;
  ASSERT_TRUE(client->ready());
  dense = dense_parameters();
  ASSERT_TRUE(client->pull_dense(dense));
  EXPECT_EQ(dense[0].value, direct.dense[0]);
  run_steps(*client, 5, 7, dense, rows, &direct);
  std::filesystem::remove_all(directory);
}

// A table and a dense parameter of the same values and gradients.
TEST_P(Client, DenseEqualsSparseWhereEveryRowIsNamedInEveryRound) {
  auto set = full_set(std::get<0>(GetParam()), 2, 2);
  set.set_dense_strategy(std::get<1>(GetParam()));
  set.set_sparse_strategy(std::get<1>(GetParam()));
  set.mutable_optimizer()->set_l2(0.01F);
  set.clear_parameters();
  for (const std::uint64_t rows : {4U, 0U}) {
    auto* const spec = set.add_parameters();
    spec->set_name(rows == 0 ? "table" : "dense");
    spec->add_dims(rows);
    spec->add_dims(5);
    spec->set_sparse(rows == 0);
    spec->set_initial_mean(0.25F);
    spec->set_learning_rate(0.5F);
  }
  const auto client = client_of(set);
  ASSERT_TRUE(client->ready());
  std::vector<DenseParameter> dense = {{0, {}, {}}};
  std::vector<SparseRows> rows = {{1, {0, 1, 2, 3}, {}, {}}};
  for (int step = 1; step <= 6; ++step) {
    for (int i = 0; i < 20; ++i) {
      dense[0].gradient.resize(20);
      dense[0].gradient[static_cast<std::size_t>(i)] =
          0.21F * static_cast<float>(i) - 0.3F * static_cast<float>(step);
    }
    rows[0].gradients = dense[0].gradient;
    ASSERT_TRUE(client->push(kSamples, 0, dense, rows));
    ASSERT_TRUE(client->pull_rows(rows));
    ASSERT_EQ(dense[0].value, rows[0].values) << step;
  }
  EXPECT_NE(dense[0].value[0], 0.25F);
}

// The second update of a row is its second, however many rounds went by; no decay in between
// (trap 6: beta powers of adam per row, not per table).
TEST_P(Client, Trap06ARowCountsItsOwnUpdatesOnly) {
  const auto set = full_set(std::get<0>(GetParam()));
  const auto client = client_of(set);
  ASSERT_TRUE(client->ready());
  Direct direct(set);
  auto dense = dense_parameters();
  for (auto& parameter : dense) parameter.gradient.clear();
  for (std::uint64_t step = 1; step <= 5; ++step) {
    const bool is_named = step == 1 || step == 4;
    std::vector<SparseRows> rows = {{2, {is_named ? 99U : 5U}, {}, {1, -0.5F, 0.25F}}};
    ASSERT_TRUE(client->push(kSamples, 0, dense, rows));
    if (!is_named) continue;
    direct.rule(2).apply(param::learning_rate(set.optimizer(), {step * kSamples, 0}),
                         step == 1 ? 1 : 2, direct.row, rows[0].gradients, direct.row_state);
  }
  std::vector<SparseRows> rows = {{2, {99}, {}, {}}};
  ASSERT_TRUE(client->pull_rows(rows));
  EXPECT_EQ(rows[0].values, direct.row);
}

INSTANTIATE_TEST_SUITE_P(Methods, Client,
                         testing::Combine(testing::Values("sgd", "momentum", "torch_momentum",
                                                          "adagrad", "decayed_adagrad", "adadelta",
                                                          "rmsprop", "adam", "adamax", "ftrl"),
                                          testing::Values(wire::STRATEGY_SYNC,
                                                          wire::STRATEGY_ASYNC)),
                         [](const auto& test) {
                           return std::get<0>(test.param) +
                                  (std::get<1>(test.param) == wire::STRATEGY_SYNC ? "Sync"
                                                                                  : "Async");
                         });

std::unique_ptr<ParameterClient> half_async_client(const wire::ParameterSet& set,
                                                   std::uint32_t max_merge,
                                                   std::uint32_t send_queue_size) {
  auto half = set;
  half.set_dense_strategy(wire::STRATEGY_HALF_ASYNC);
  half.set_sparse_strategy(wire::STRATEGY_HALF_ASYNC);
  return make_half_async_client(
      client_of(half),
      {.communicator = {.max_merge = max_merge, .send_queue_size = send_queue_size, .merge = {}},
       .dense = true,
       .sparse = true});
}

// The gradients of run_steps depend on the step alone, so that only the age of what a trainer
// sees tells the strategies apart.
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
  std::vector<std::vector<float>> values{dense[0].value};  // after each step
  std::vector<std::vector<float>> row_values;              // before each step
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

TEST(HalfAsync, MergedBatchesAreCountedAndThePassEndsThem) {
  const auto client = half_async_client(test::small_set("sgd", 1, 2, 2), 3, 1);
  ASSERT_TRUE(client->ready());
  auto dense = dense_parameters();
  auto rows = some_rows();
  ASSERT_TRUE(client->pull_dense(dense));
  run_steps(*client, 1, 7, dense, rows, nullptr);
  const auto totals = client->finish_pass({});
  ASSERT_TRUE(totals);
  for (const PushCounts* counts : {&totals->dense, &totals->sparse}) {
    EXPECT_EQ(counts->pushes, 3U);
    EXPECT_EQ(counts->batches, 7U);
  }
  EXPECT_EQ(totals->samples, 28U);
  EXPECT_EQ(totals->discarded, 0U);
}

// One trainer's own updates, pushed every third batch, are the updates that the shards would make.
TEST(Local, OneTrainerEndsWhereItsShardsWould) {
  for (const auto strategy : {wire::STRATEGY_GEO, wire::STRATEGY_LOCAL_SGD}) {
    for (const char* const method : {"sgd", "adagrad", "adam"}) {
      SCOPED_TRACE(std::string(method) + " strategy " + std::to_string(strategy));
      auto set = test::small_set(method, 1, 3, 2);
      wire::LearningRateSchedule& schedule = *set.mutable_optimizer()->mutable_schedule();
      schedule.set_name("poly");  // by samples, which go on over the end of a pass
      schedule.set_a(0.5);
      schedule.set_b(1);
      schedule.set_warmup_samples(3 * kSamples);
      const auto direct = client_of(set);
      ASSERT_TRUE(direct->ready());
      auto dense = dense_parameters();
      auto rows = some_rows();
      ASSERT_TRUE(direct->pull_dense(dense));
      run_steps(*direct, 1, 7, dense, rows, nullptr);
      ASSERT_TRUE(direct->finish_pass({}));
      run_steps(*direct, 8, 9, dense, rows, nullptr);
      ASSERT_TRUE(direct->pull_rows(rows));

      set.set_dense_strategy(strategy);
      set.set_sparse_strategy(strategy);
      set.set_update_frequency(3);
      for (auto& spec : *set.mutable_parameters()) spec.set_is_delta(true);
      const auto client = make_local_client(client_of(set), {set});
      ASSERT_TRUE(client->ready());
      auto own = dense_parameters();
      auto own_rows = some_rows();
      ASSERT_TRUE(client->pull_dense(own));
      run_steps(*client, 1, 7, own, own_rows, nullptr);
      const auto totals = client->finish_pass({});
      ASSERT_TRUE(totals) << totals.error().message;
      EXPECT_EQ(totals->samples, 28U);
      for (const PushCounts* counts : {&totals->dense, &totals->sparse}) {
        EXPECT_EQ(counts->pushes, 3U);
        EXPECT_EQ(counts->batches, 7U);
      }
      EXPECT_EQ(client->progress().samples, 28U);
      ASSERT_TRUE(client->pull_dense(own));
      run_steps(*client, 8, 9, own, own_rows, nullptr);
      ASSERT_TRUE(client->finish_pass({}));
      EXPECT_EQ(client->progress().samples, 36U);
      EXPECT_EQ(client->progress().passes, 2U);
      ASSERT_TRUE(client->pull_averages(own, own_rows));  // what the shards hold
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
}

// A test and a snapshot use what the shards hold: a window that is open stays with the trainer.
TEST(Local, PullingForATestLeavesTheTrainersOwnModel) {
  for (const float elastic : {0.0F, 0.5F}) {
    auto set = test::small_set("sgd", 1);
    set.set_dense_strategy(wire::STRATEGY_LOCAL_SGD);
    set.set_sparse_strategy(wire::STRATEGY_LOCAL_SGD);
    set.set_update_frequency(2);
    set.set_elastic_rate(elastic);
    for (auto& spec : *set.mutable_parameters()) spec.set_is_delta(true);
    const auto client = make_local_client(client_of(set), {set});
    ASSERT_TRUE(client->ready());
    auto dense = dense_parameters();
    auto rows = some_rows();
    ASSERT_TRUE(client->pull_dense(dense));
    const std::vector<float> first = dense[0].value;
    run_steps(*client, 1, 1, dense, rows, nullptr);
    const std::vector<float> own = dense[0].value;
    auto tested = dense_parameters();
    ASSERT_TRUE(client->pull_averages(tested, rows));
    EXPECT_EQ(tested[0].value, first);
    ASSERT_TRUE(client->pull_dense(tested));
    EXPECT_EQ(tested[0].value, own);
    EXPECT_NE(own, first);
    run_steps(*client, 2, 2, dense, rows, nullptr);
    ASSERT_TRUE(client->pull_averages(tested, rows));
    EXPECT_NE(tested[0].value, first);
    // The mean of one trainer is its model; a center is not, and this one is in the middle.
    EXPECT_EQ(tested[0].value == dense[0].value, elastic == 0);
    ASSERT_TRUE(client->leave());
  }
}

// Averages are of what the shards hold after each push.
TEST(Local, AveragesAreOverPushes) {
  for (const auto strategy : {wire::STRATEGY_GEO, wire::STRATEGY_LOCAL_SGD}) {
    auto set = test::small_set("adam", 1, 3, 2);
    set.set_dense_strategy(strategy);
    set.set_sparse_strategy(strategy);
    set.set_update_frequency(2);
    set.mutable_optimizer()->mutable_average()->set_window(1);
    for (auto& spec : *set.mutable_parameters()) spec.set_is_delta(true);
    const auto client = make_local_client(client_of(set), {set});
    ASSERT_TRUE(client->ready());
    auto dense = dense_parameters();
    auto rows = some_rows();
    ASSERT_TRUE(client->pull_dense(dense));
    std::vector<double> sum(24);
    std::vector<double> row_sum(12);
    for (int push = 0; push < 3; ++push) {
      run_steps(*client, 2 * push + 1, 2 * push + 2, dense, rows, nullptr);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += dense[0].value[i];
      auto now = some_rows();
      ASSERT_TRUE(client->pull_rows(now));
      for (std::size_t i = 0; i < row_sum.size(); ++i) row_sum[i] += now[0].values[i];
    }
    auto averages = dense_parameters();
    ASSERT_TRUE(client->pull_averages(averages, rows));
    for (std::size_t i = 0; i < sum.size(); ++i) {
      EXPECT_NEAR(averages[0].value[i], sum[i] / 3, 1e-5);
      EXPECT_GT(std::abs(averages[0].value[i] - dense[0].value[i]), 1e-3);
    }
    // geo fetches rows before the window that is held back.
    for (std::size_t i = 0; strategy != wire::STRATEGY_GEO && i < row_sum.size(); ++i) {
      EXPECT_NEAR(rows[0].values[i], row_sum[i] / 3, 1e-5);
    }
    ASSERT_TRUE(client->leave());
  }
}

// Trap 12: a failed push is an error of the step, and nothing trains on after it.
TEST(HalfAsync, Trap12AFailedPushIsReportedAndEndsTheJob) {
  const auto client = half_async_client(test::small_set("sgd", 1), 1, 1);
  ASSERT_TRUE(client->ready());
  auto dense = dense_parameters();
  auto rows = some_rows();
  ASSERT_TRUE(client->pull_dense(dense));
  ASSERT_TRUE(client->pull_rows(rows));
  for (DenseParameter& one : dense) one.gradient.assign(one.value.size(), std::nanf(""));
  rows[0].gradients.assign(rows[0].values.size(), 1);
  Status pushed = client->push(4, 1, dense, rows);
  if (pushed) pushed = client->push(4, 1, dense, rows);
  ASSERT_FALSE(pushed);
  EXPECT_NE(pushed.error().message.find("is not finite"), std::string::npos);
  EXPECT_FALSE(client->push(4, 1, dense, rows));
  EXPECT_FALSE(client->finish_pass({}));
}

TEST(ClientRefusals, SnapshotOfAnotherNetworkIsRefusedByName) {
  const std::string directory = testing::TempDir() + "/client_other_network";
  std::filesystem::remove_all(directory);
  const auto client = client_of(test::small_set("sgd", 1));
  ASSERT_TRUE(client->ready());
  ASSERT_TRUE(client->save_snapshot(directory));
  auto other = test::small_set("sgd", 1);
  other.mutable_parameters(0)->set_dims(0, 7);
  const Status loaded = client_of(other)->load_snapshot(directory);
  ASSERT_FALSE(loaded);
  EXPECT_NE(loaded.error().message.find("'fc.w' is of another shape"), std::string::npos);
  std::filesystem::remove_all(directory);
}

TEST(ClientRefusals, IdsThatAreNotSortedAreRefusedBeforeSending) {
  const auto client = client_of(test::small_set("sgd", 1));
  ASSERT_TRUE(client->ready());
  std::vector<SparseRows> rows = {{2, {5, 4}, {}, {}}};
  EXPECT_FALSE(client->pull_rows(rows));
}

TEST(ClientAverages, ArePulledAndAreWhatASnapshotHolds) {
  const std::string directory = testing::TempDir() + "/client_averages";
  std::filesystem::remove_all(directory);
  const auto set = full_set("adam", 3, 2);
  const auto client = client_of(set);
  ASSERT_TRUE(client->ready());
  Direct direct(set);
  auto dense = dense_parameters();
  auto rows = some_rows();
  run_steps(*client, 1, 5, dense, rows, &direct);
  const auto average_of = [](const std::vector<float>& value, const std::vector<float>& state) {
    return std::vector<float>(state.end() - std::ssize(value), state.end());
  };
  const auto expected = average_of(direct.dense[0], direct.dense_state[0]);
  const auto expected_row = average_of(direct.row, direct.row_state);
  ASSERT_NE(expected, direct.dense[0]);
  ASSERT_TRUE(client->pull_averages(dense, rows));
  EXPECT_EQ(dense[0].value, expected);
  EXPECT_EQ(std::vector<float>(rows[0].values.begin() + 3, rows[0].values.begin() + 6),
            expected_row);
  ASSERT_TRUE(client->pull_dense(dense));
  EXPECT_EQ(dense[0].value, direct.dense[0]);

  ASSERT_TRUE(client->finish_pass({}));
  ASSERT_TRUE(client->save_snapshot(directory));
  const auto reader = param::SnapshotReader::open(directory);
  ASSERT_TRUE(reader) << reader.error().message;
  std::vector<float> value;
  std::vector<float> state;
  std::uint64_t update_count = 0;
  ASSERT_TRUE(reader->read_dense("fc.w", value, state, update_count));
  EXPECT_EQ(value, expected);

  // Another optimizer starts from the averages, and so does its own average.
  const auto other = client_of(full_set("adagrad", 2, 1));
  ASSERT_TRUE(other->load_snapshot(directory));
  ASSERT_TRUE(other->ready());
  ASSERT_TRUE(other->pull_dense(dense));
  EXPECT_EQ(dense[0].value, expected);
  ASSERT_TRUE(other->pull_averages(dense, rows));
  EXPECT_EQ(dense[0].value, expected);
  EXPECT_EQ(std::vector<float>(rows[0].values.begin() + 3, rows[0].values.begin() + 6),
            expected_row);
  std::filesystem::remove_all(directory);
}

TEST(ClientAverages, AreTheValuesWhereNoneAreKept) {
  const auto set = test::small_set("adam", 1, 2, 2);
  const auto client = client_of(set);
  ASSERT_TRUE(client->ready());
  Direct direct(set);
  auto dense = dense_parameters();
  auto rows = some_rows();
  run_steps(*client, 1, 3, dense, rows, &direct);
  dense = dense_parameters();
  ASSERT_TRUE(client->pull_averages(dense, rows));
  EXPECT_EQ(dense[0].value, direct.dense[0]);
  EXPECT_EQ(std::vector<float>(rows[0].values.begin() + 3, rows[0].values.begin() + 6), direct.row);
}

TEST(ClientFrames, SmallFramesGiveTheSameBitsAsLargeOnes) {
  for (const auto strategy : {wire::STRATEGY_SYNC, wire::STRATEGY_ASYNC}) {
    auto set = test::small_set("adagrad", 1, 3, 2);
    set.set_dense_strategy(strategy);
    set.set_sparse_strategy(strategy);
    Direct direct(set);
    const auto client = client_of(set, 24);  // 6 values, or one row with its id
    ASSERT_TRUE(client->ready());
    auto dense = dense_parameters();
    auto rows = some_rows();
    ASSERT_TRUE(client->pull_dense(dense));
    EXPECT_EQ(dense[0].value, direct.dense[0]);
    run_steps(*client, 1, 4, dense, rows, &direct);
    EXPECT_EQ(client->finish_pass({})->samples, 16U);  // counted once a push, not once a frame
    ASSERT_TRUE(client->pull_dense(dense));
    EXPECT_EQ(dense[0].value, direct.dense[0]);
  }
}

// Counts the requests for rows that are out at once.
class CountingLink final : public net::Link {
 public:
  CountingLink(std::unique_ptr<net::Link> link, std::size_t& most)
      : link_(std::move(link)), most_(most) {}
  Status send(Frame frame, std::span<const ByteSpan> pieces, TimePoint deadline) override {
    if (frame.header.type == static_cast<std::uint8_t>(FrameType::kPullRows)) ++open_;
    most_ = std::max(most_, open_);
    return link_->send(std::move(frame), pieces, deadline);
  }
  Result<Frame> receive(TimePoint deadline, const net::TailPlace& place) override {
    auto frame = link_->receive(deadline, place);
    if (frame && frame->header.type == static_cast<std::uint8_t>(FrameType::kRowValues)) --open_;
    return frame;
  }
  std::string peer() const override { return link_->peer(); }

 private:
  std::unique_ptr<net::Link> link_;
  std::size_t open_ = 0;
  std::size_t& most_;
};

TEST(ClientFrames, RowsAreAskedForBeforeThoseBeforeThemHaveCome) {
  const auto set = test::small_set("sgd", 1, 1, 1);
  std::size_t most = 0;
  std::vector<std::unique_ptr<net::Link>> dense;
  dense.push_back(local_shard(0, false));
  std::vector<std::unique_ptr<net::Link>> sparse;
  sparse.push_back(std::make_unique<CountingLink>(local_shard(0, true), most));
  auto joined = ParameterClient::join({.parameters = set}, std::move(dense), std::move(sparse));
  ASSERT_TRUE(joined);
  const auto client = *std::move(joined);
  ASSERT_TRUE(client->ready());
  std::vector<SparseRows> rows = {{2, {}, {}, {}}};
  for (std::uint64_t id = 0; id < 400'000; ++id) rows[0].ids.push_back(id);  // 8 MB
  ASSERT_TRUE(client->pull_rows(rows));
  EXPECT_GT(most, 1U);
  EXPECT_LE(most, 8U);  // it is bounded
  for (const std::size_t i : {0U, 100'000U, 399'999U}) {
    std::vector<float> row(3);
    param::fill_initial_row(row, set.parameters(2), set.seed(), rows[0].ids[i]);
    EXPECT_EQ(std::vector<float>(rows[0].values.begin() + static_cast<std::ptrdiff_t>(3 * i),
                                 rows[0].values.begin() + static_cast<std::ptrdiff_t>(3 * i + 3)),
              row);
  }
  // A refusal ends all of them; what the shard answers to the others is late.
  ASSERT_TRUE(client->leave());
  const Status refused = client->pull_rows(rows);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("has left"), std::string::npos);
  EXPECT_FALSE(client->pull_rows(rows));
}

TEST(ClientPlan, RowsSplitIntoFramesOfBoundedBytes) {
  const auto set = test::small_set("sgd", 1, 1, 1);
  std::vector<SparseRows> rows = {{2, {1, 2, 3, 4, 5}, {}, {}}};
  const auto frames = plan_rows(rows, set, 2 * (8 + 3 * 4));
  ASSERT_EQ(frames.size(), 1U);
  ASSERT_EQ(frames[0].size(), 3U);
  EXPECT_EQ(frames[0][1].ranges[0].runs, (std::vector<RowRun>{{2, 2}}));
  EXPECT_EQ(frames[0][1].ranges[0].count, 2U);
}

}  // namespace
}  // namespace paddle::trainer
