// ParameterClient against real shards in this process.
#include <filesystem>

#include <gtest/gtest.h>

#include "engine/net/local_link.h"
#include "engine/param/initial.h"
#include "engine/param/optimizer.h"
#include "engine/param/parameter_set.h"
#include "engine/pserver/shard.h"
#include "engine/trainer/client_plan.h"
#include "engine/trainer/parameter_client.h"
#include "tests/unit/pserver/parameters.h"

namespace paddle::trainer {
namespace {

std::unique_ptr<net::Link> local_shard(std::uint32_t index, bool is_sparse) {
  auto shard = std::make_shared<pserver::Shard>(
      pserver::ShardOptions{.index = index, .is_sparse = is_sparse, .epoch = 3});
  return net::make_local_link(std::move(shard), {Role::kTrainer, 0});
}

std::unique_ptr<ParameterClient> client_of(const wire::ParameterSet& set,
                                           std::uint64_t transfer_bytes = 32U << 20U) {
  std::vector<std::unique_ptr<net::Link>> dense;
  std::vector<std::unique_ptr<net::Link>> sparse;
  for (std::uint32_t i = 0; i < set.dense_shards(); ++i) dense.push_back(local_shard(i, false));
  for (std::uint32_t i = 0; i < set.sparse_shards(); ++i) sparse.push_back(local_shard(i, true));
  auto client = ParameterClient::join({.parameters = set, .transfer_bytes = transfer_bytes},
                                      std::move(dense), std::move(sparse));
  EXPECT_TRUE(client) << client.error().message;
  return client ? *std::move(client) : nullptr;
}

// What a job looks like without any pserver.
struct Direct {
  explicit Direct(const wire::ParameterSet& parameters) : set(parameters) {
    for (int i = 0; i < 2; ++i) {
      dense[i].resize(param::element_count(set.parameters(i)));
      param::fill_initial(dense[i], set.parameters(i), set.seed(), 0);
      dense_state[i].resize(dense[i].size() * param::state_width(set.optimizer()));
    }
    row.resize(3);
    param::fill_initial_row(row, set.parameters(2), set.seed(), 99);
    row_state.resize(3 * param::state_width(set.optimizer()));
  }
  void step(std::uint64_t count, std::span<const DenseParameter> gradients,
            std::span<const float> row_gradient) {
    for (int i = 0; i < 2; ++i) {
      param::apply_update(set.optimizer(), {0.1F, set.parameters(i).l2(), count}, dense[i],
                          gradients[static_cast<std::size_t>(i)].gradient, dense_state[i]);
    }
    param::apply_update(set.optimizer(), {0.1F * 0.5F, 0, count}, row, row_gradient, row_state);
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
    ASSERT_TRUE(client.push(4, 2.5, dense, rows));
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

class Client : public testing::TestWithParam<std::tuple<std::string, wire::Strategy>> {};

TEST_P(Client, OneTrainerIsBitEqualToApplyingUpdatesDirectly) {
  auto set = test::small_set(std::get<0>(GetParam()), 1, 3, 2);
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
  const auto totals = client->finish_pass();
  ASSERT_TRUE(totals);
  EXPECT_EQ(totals->samples, 20U);
  EXPECT_EQ(totals->cost, 12.5);
  EXPECT_EQ(totals->discarded, 0U);
  run_steps(*client, 6, 6, dense, rows, &direct);
  EXPECT_EQ(client->finish_pass()->samples, 4U);
  EXPECT_TRUE(client->leave());
}

TEST_P(Client, SnapshotGoesOnBitEqualOnAnotherNumberOfPorts) {
  const std::string directory = testing::TempDir() + "/client_snapshot_" + std::get<0>(GetParam()) +
                                std::to_string(std::get<1>(GetParam()));
  std::filesystem::remove_all(directory);
  Direct direct(test::small_set(std::get<0>(GetParam()), 1));
  auto dense = dense_parameters();
  auto rows = some_rows();
  {
    auto set = test::small_set(std::get<0>(GetParam()), 1, 3, 2);
    set.set_dense_strategy(std::get<1>(GetParam()));
    const auto client = client_of(set);
    ASSERT_TRUE(client->ready());
    run_steps(*client, 1, 4, dense, rows, &direct);
    ASSERT_TRUE(client->finish_pass());
    const Status saved = client->save_snapshot(directory);
    ASSERT_TRUE(saved) << saved.error().message;
  }
  const auto client = client_of(test::small_set(std::get<0>(GetParam()), 1, 1, 5));
  const Status loaded = client->load_snapshot(directory);
  ASSERT_TRUE(loaded) << loaded.error().message;
  ASSERT_TRUE(client->ready());
  dense = dense_parameters();
  ASSERT_TRUE(client->pull_dense(dense));
  EXPECT_EQ(dense[0].value, direct.dense[0]);
  run_steps(*client, 5, 7, dense, rows, &direct);
  std::filesystem::remove_all(directory);
}

INSTANTIATE_TEST_SUITE_P(Methods, Client,
                         testing::Combine(testing::Values("sgd", "momentum", "adagrad", "adam"),
                                          testing::Values(wire::STRATEGY_SYNC,
                                                          wire::STRATEGY_ASYNC)),
                         [](const auto& test) {
                           return std::get<0>(test.param) +
                                  (std::get<1>(test.param) == wire::STRATEGY_SYNC ? "Sync"
                                                                                  : "Async");
                         });

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
    EXPECT_EQ(client->finish_pass()->samples, 16U);  // counted once a push, not once a frame
    ASSERT_TRUE(client->pull_dense(dense));
    EXPECT_EQ(dense[0].value, direct.dense[0]);
  }
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
