// ShardClient on shards in this process.
#include <algorithm>
#include <filesystem>
#include <limits>
#include <thread>

#include <gtest/gtest.h>

#include "engine/math/initial.h"
#include "engine/math/optimizer.h"
#include "engine/math/schedule.h"
#include "engine/snapshot/reader.h"
#include "engine/snapshot/writer.h"
#include "engine/table/parameter_set.h"
#include "tests/unit/engine/client/client_fixture.h"

namespace paddle::client {
namespace {

TEST(ClientThreads, PushDenseParametersAndRowsAtTheSameTime) {
  const auto set = full_set("adam", 2, 2);
  std::size_t calls = 0;
  const auto client = client_of(set, {.transfer_bytes = 32, .run_pair = [&calls](const Work& work) {
                                        ++calls;
                                        std::thread other([&work] { work(1); });
                                        work(0);
                                        work(2);  // of a larger team
                                        other.join();
                                      }});
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
    const Status saved = client->snapshots().save(directory);
    ASSERT_TRUE(saved) << saved.error().message;
  }
  const auto client = client_of(full_set(std::get<0>(GetParam()), 1, 5));
  const Status loaded = client->snapshots().load(directory);
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
    rows[0].gradients.assign(dense[0].gradient.begin(), dense[0].gradient.end());
    ASSERT_TRUE(client->push(kSamples, 0, dense, rows));
    ASSERT_TRUE(client->pull_rows(rows));
    ASSERT_TRUE(std::ranges::equal(dense[0].value, rows[0].values)) << step;
  }
  EXPECT_NE(dense[0].value[0], 0.25F);
}

// Trap 6: a row counts its own updates (beta powers of adam), not the rounds of its table.
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
    direct.rule(2).apply(optim::learning_rate(set.optimizer(), {step * kSamples, 0}),
                         step == 1 ? 1 : 2, direct.row, rows[0].gradients, direct.row_state);
  }
  std::vector<SparseRows> rows = {{2, {99}, {}, {}}};
  ASSERT_TRUE(client->pull_rows(rows));
  EXPECT_EQ(rows[0].values, direct.row);
}

std::vector<std::string> method_names() {
  std::vector<std::string> names;
  for (const optim::Method& method : optim::methods()) names.emplace_back(method.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Methods, Client,
                         testing::Combine(testing::ValuesIn(method_names()),
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
  ASSERT_TRUE(client->snapshots().save(directory));
  auto other = test::small_set("sgd", 1);
  other.mutable_parameters(0)->set_dims(0, 7);
  const Status loaded = client_of(other)->snapshots().load(directory);
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
  const auto average_of = [](std::span<const float> value, const std::vector<float>& state) {
    return std::vector<float>(state.end() - std::ssize(value), state.end());
  };
  const auto expected = average_of(direct.dense[0], direct.dense_state[0]);
  const auto expected_row = average_of(direct.row, direct.row_state);
  ASSERT_FALSE(std::ranges::equal(expected, direct.dense[0]));
  ASSERT_TRUE(client->pull_averages(dense, rows));
  EXPECT_TRUE(std::ranges::equal(dense[0].value, expected));
  EXPECT_EQ(std::vector<float>(rows[0].values.begin() + 3, rows[0].values.begin() + 6),
            expected_row);
  ASSERT_TRUE(client->pull_dense(dense));
  EXPECT_EQ(dense[0].value, direct.dense[0]);

  ASSERT_TRUE(client->finish_pass({}));
  ASSERT_TRUE(client->snapshots().save(directory));
  const auto reader = snapshot::SnapshotReader::open(directory);
  ASSERT_TRUE(reader) << reader.error().message;
  std::vector<float> value;
  std::vector<float> state;
  std::uint64_t update_count = 0;
  ASSERT_TRUE(reader->read_dense("fc.w", value, state, update_count));
  EXPECT_EQ(value, expected);

  // Another optimizer starts from the averages; its own average does too.
  const auto other = client_of(full_set("adagrad", 2, 1));
  ASSERT_TRUE(other->snapshots().load(directory));
  ASSERT_TRUE(other->ready());
  ASSERT_TRUE(other->pull_dense(dense));
  EXPECT_TRUE(std::ranges::equal(dense[0].value, expected));
  ASSERT_TRUE(other->pull_averages(dense, rows));
  EXPECT_TRUE(std::ranges::equal(dense[0].value, expected));
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

// An id that training never saw has no random part in a test, whichever port it belongs to.
TEST(ClientAverages, OfARowThatIsNotThereAreTheMeanOfInitialValues) {
  for (const bool draws : {false, true}) {
    for (const float window : {0.0F, 0.5F}) {
      auto set = test::small_set("adam", 1, 2, 2);
      set.mutable_optimizer()->mutable_average()->set_window(window);
      wire::ParameterSpec& table = *set.mutable_parameters(test::kTable);
      table.set_initial_mean(0.25F);
      table.mutable_table()->set_draws_unseen(draws);
      const auto client = client_of(set);
      ASSERT_TRUE(client->ready());
      auto rows = some_rows();
      ASSERT_TRUE(client->pull_rows(rows));
      const std::vector<float> trained(rows[0].values.begin(), rows[0].values.end());
      EXPECT_NE(trained, std::vector<float>(trained.size(), 0.25F));
      ASSERT_TRUE(client->pull_averages({}, rows));
      const std::vector<float> tested(rows[0].values.begin(), rows[0].values.end());
      EXPECT_EQ(tested, draws ? trained : std::vector<float>(trained.size(), 0.25F)) << window;
    }
  }
}

TEST(ClientFrames, SmallFramesGiveTheSameBitsAsLargeOnes) {
  for (const auto strategy : {wire::STRATEGY_SYNC, wire::STRATEGY_ASYNC}) {
    auto set = test::small_set("adagrad", 1, 3, 2);
    set.set_dense_strategy(strategy);
    set.set_sparse_strategy(strategy);
    Direct direct(set);
    const auto client = client_of(set, {.transfer_bytes = 24});  // 6 values, or one row with its id
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

}  // namespace
}  // namespace paddle::client
