// Dense values that a trainer reads where its shard, in the same process, has them.
#include "engine/trainer/client_plan.h"
#include "tests/unit/pserver/client_fixture.h"

namespace paddle::trainer {
namespace {

using Shards = std::vector<std::shared_ptr<pserver::Shard>>;

std::unique_ptr<ParameterClient> lending_client(const wire::ParameterSet& set, Shards& shards) {
  std::vector<std::unique_ptr<net::Link>> dense;
  std::vector<std::unique_ptr<net::Link>> sparse;
  for (std::uint32_t i = 0; i < set.dense_shards(); ++i) {
    shards.push_back(std::make_shared<pserver::Shard>(
        pserver::ShardOptions{.index = i, .epoch = 3, .sends_values = false}));
    dense.push_back(net::make_local_link(shards.back(), {Role::kTrainer, 0}));
  }
  sparse.push_back(local_shard(0, true));
  auto client = ParameterClient::join(
      {.parameters = set, .values_of = [&](std::size_t i) { return shards[i]->dense()->values(); }},
      std::move(dense), std::move(sparse));
  EXPECT_TRUE(client) << client.error().message;
  return client ? *std::move(client) : nullptr;
}

TEST(LentValues, AreTheShardsOwnAndFollowEveryPush) {
  for (const auto strategy : {wire::STRATEGY_SYNC, wire::STRATEGY_ASYNC}) {
    auto set = test::small_set("adagrad", 1, 1, 1);
    set.set_dense_strategy(strategy);
    set.set_sparse_strategy(strategy);
    Shards shards;
    const auto client = lending_client(set, shards);
    ASSERT_TRUE(client->ready());
    auto dense = dense_parameters();
    auto rows = some_rows();
    ASSERT_TRUE(client->pull_dense(dense));
    EXPECT_EQ(dense[0].values().data(), shards[0]->dense()->values().data());
    EXPECT_EQ(dense[1].values().data(), dense[0].values().data() + 24);
    Direct direct(set);
    EXPECT_EQ(copied(dense[0]), direct.dense[0]);
    run_steps(*client, 1, 4, dense, rows, &direct);
    EXPECT_EQ(dense[0].values().data(), shards[0]->dense()->values().data());
  }
}

TEST(LentValues, AveragesAreTheTrainersOwnUntilTheNextPull) {
  const auto set = full_set("adagrad");
  Shards shards;
  const auto lending = lending_client(set, shards);
  const auto copying = client_of(set);
  auto lent = dense_parameters();
  auto own = dense_parameters();
  auto rows = some_rows();
  for (auto [client, dense] : {std::pair(lending.get(), &lent), std::pair(copying.get(), &own)}) {
    ASSERT_TRUE(client->ready());
    ASSERT_TRUE(client->pull_dense(*dense));
    run_steps(*client, 1, 5, *dense, rows, nullptr);
  }
  const LargeArray<float> trained = own[0].value;
  EXPECT_EQ(copied(lent[0]), trained);
  ASSERT_TRUE(lending->pull_averages(lent, {}));
  ASSERT_TRUE(copying->pull_averages(own, {}));
  EXPECT_EQ(copied(lent[0]), own[0].value);
  EXPECT_NE(copied(lent[0]), trained);
  ASSERT_TRUE(lending->pull_dense(lent));
  EXPECT_EQ(copied(lent[0]), trained);
}

// A parameter in two pieces is copied, as from shards elsewhere.
TEST(LentValues, AreNoneWhereAParameterIsDivided) {
  auto set = test::small_set("adagrad", 1, 2, 1);
  set.set_min_block_size(4);
  ASSERT_FALSE(is_undivided(plan_dense(set)));
  Shards shards;
  const auto client = lending_client(set, shards);
  ASSERT_TRUE(client->ready());
  auto dense = dense_parameters();
  auto rows = some_rows();
  ASSERT_TRUE(client->pull_dense(dense));
  EXPECT_TRUE(dense[0].lent.empty());
  Direct direct(set);
  run_steps(*client, 1, 3, dense, rows, &direct);
}

TEST(LentValues, AParameterIsDividedByAGapOrAnotherShard) {
  const DensePiece first{0, 0, 8, 0};
  const DensePiece second{0, 8, 8, 8};
  const DensePiece other{1, 0, 4, 8};
  EXPECT_TRUE(is_undivided({{{first, second}}, {16}}));
  EXPECT_TRUE(is_undivided({{{first}, {{1, 0, 4, 0}}}, {8, 4}}));
  EXPECT_FALSE(is_undivided({{{first}, {{0, 8, 8, 0}}}, {8, 8}}));
  EXPECT_FALSE(is_undivided({{{first, other, {0, 8, 8, 12}}}, {20}}));
}

}  // namespace
}  // namespace paddle::trainer
