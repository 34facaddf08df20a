// Dense values that a trainer reads where its shard, in the same process, has them.
#include "engine/client/dense_layout.h"
#include "engine/strategy/strategy_table.h"
#include "tests/unit/engine/client/client_fixture.h"

namespace paddle::client {
namespace {

// A client that lends, ready, and the shards that its dense values lie in.
struct Lending {
  explicit Lending(const wire::ParameterSet& set) {
    std::vector<std::unique_ptr<net::Link>> links;
    std::vector<std::unique_ptr<net::Link>> sparse;
    for (std::uint32_t i = 0; i < set.dense_shards(); ++i) {
      shards.push_back(std::make_shared<pserver::Shard>(
          pserver::ShardOptions{.make_policy = strategy::make_update_policy,
                                .index = i,
                                .epoch = 3,
                                .sends_values = false}));
      links.push_back(net::make_local_link(shards.back(), {Role::kTrainer, 0}));
    }
    sparse.push_back(local_shard(0, true));
    auto joined = ShardChannels::join(
        {.parameters = set,
         .values_of = [this](std::size_t i) { return shards[i]->dense()->values(); }},
        std::move(links), std::move(sparse));
    EXPECT_TRUE(joined) << joined.error().message;
    client = std::make_unique<ShardClient>(*std::move(joined));
    EXPECT_TRUE(client->ready());
    EXPECT_TRUE(client->pull_dense(dense));
  }
  Lending(const Lending&) = delete;
  Lending& operator=(const Lending&) = delete;

  std::vector<std::shared_ptr<pserver::Shard>> shards;
  std::unique_ptr<ParameterClient> client;
  std::vector<DenseParameter> dense = dense_parameters();
  std::vector<SparseRows> rows = some_rows();
};

TEST(LentValues, AreTheShardsOwnAndFollowEveryPush) {
  for (const auto strategy : {wire::STRATEGY_SYNC, wire::STRATEGY_ASYNC}) {
    auto set = test::small_set("adagrad", 1, 1, 1);
    set.set_dense_strategy(strategy);
    set.set_sparse_strategy(strategy);
    Lending lending(set);
    const float* const own = lending.shards[0]->dense()->values().data();
    EXPECT_EQ(lending.dense[0].values().data(), own);
    EXPECT_EQ(lending.dense[1].values().data(), own + 24);
    Direct direct(set);
    EXPECT_EQ(copied(lending.dense[0]), direct.dense[0]);
    run_steps(*lending.client, 1, 4, lending.dense, lending.rows, &direct);
    EXPECT_EQ(lending.dense[0].values().data(), own);
  }
}

TEST(LentValues, AveragesAreTheTrainersOwnUntilTheNextPull) {
  const auto set = full_set("adagrad");
  Lending lending(set);
  const auto copying = client_of(set);
  auto own = dense_parameters();
  auto rows = some_rows();
  ASSERT_TRUE(copying->ready());
  ASSERT_TRUE(copying->pull_dense(own));
  run_steps(*lending.client, 1, 5, lending.dense, lending.rows, nullptr);
  run_steps(*copying, 1, 5, own, rows, nullptr);
  const LargeArray<float> trained = own[0].value;
  EXPECT_EQ(copied(lending.dense[0]), trained);
  ASSERT_TRUE(lending.client->pull_averages(lending.dense, {}));
  ASSERT_TRUE(copying->pull_averages(own, {}));
  EXPECT_EQ(copied(lending.dense[0]), own[0].value);
  EXPECT_NE(copied(lending.dense[0]), trained);
  ASSERT_TRUE(lending.client->pull_dense(lending.dense));
  EXPECT_EQ(copied(lending.dense[0]), trained);
}

// A parameter in two pieces is copied, as from shards elsewhere.
TEST(LentValues, AreNoneWhereAParameterIsDivided) {
  auto set = test::small_set("adagrad", 1, 2, 1);
  set.set_min_block_size(4);
  ASSERT_FALSE(is_undivided(dense_layout(set)));
  Lending lending(set);
  EXPECT_TRUE(lending.dense[0].lent.empty());
  Direct direct(set);
  run_steps(*lending.client, 1, 3, lending.dense, lending.rows, &direct);
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
}  // namespace paddle::client
