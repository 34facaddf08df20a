#include "engine/client/dense_channel.h"

#include "engine/strategy/strategy_table.h"
#include "tests/unit/engine/client/client_fixture.h"

namespace paddle::client {
namespace {

// A client that borrows the values of its shards, ready.
struct Lending {
  explicit Lending(const wire::ParameterSet& set) {
    std::vector<std::unique_ptr<net::Link>> links;
    std::vector<std::unique_ptr<net::Link>> sparse;
    for (std::uint32_t i = 0; i < set.dense_shards(); ++i) {
      loans.push_back(std::make_shared<parameter::DenseLoan>(parameter::DenseLoan{true}));
      shards.push_back(std::make_shared<pserver::Shard>(
          pserver::ShardOptions{.make_policy = strategy::make_update_policy,
                                .index = i,
                                .server_generation = 3,
                                .loan = loans.back()}));
      links.push_back(net::make_local_link(shards.back(), {Role::kTrainer, 0}));
    }
    sparse.push_back(local_shard(0, true));
    auto joined = ShardChannels::join({.parameters = set, .loans = loans}, std::move(links),
                                      std::move(sparse));
    EXPECT_TRUE(joined) << joined.error().message;
    client = std::make_unique<ShardClient>(*std::move(joined));
    EXPECT_TRUE(client->ready());
    EXPECT_TRUE(client->pull_dense(dense));
  }
  Lending(const Lending&) = delete;
  Lending& operator=(const Lending&) = delete;

  DenseChannel::Loans loans;
  std::vector<std::shared_ptr<pserver::Shard>> shards;
  std::unique_ptr<ParameterClient> client;
  std::vector<DenseParameter> dense = dense_parameters();
  std::vector<SparseRows> rows = some_rows();
};

TEST(DenseLoan, AreTheShardsOwnAndFollowEveryPush) {
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

TEST(DenseLoan, AveragesAreTheTrainersOwnUntilTheNextPull) {
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

// A parameter in two pieces is copied, as from shards elsewhere; its gradients are still lent.
TEST(DenseLoan, AreNoneWhereAParameterIsDivided) {
  auto set = test::small_set("adagrad", 1, 2, 1);
  set.set_min_block_size(4);
  ASSERT_FALSE(is_undivided(dense_layout(set)));
  Lending lending(set);
  EXPECT_TRUE(lending.dense[0].lent.empty());
  Direct direct(set);
  run_steps(*lending.client, 1, 3, lending.dense, lending.rows, &direct);
}

TEST(DenseLoan, AParameterWithoutAGradientIsPushedInTheFrame) {
  const auto set = test::small_set("sgd", 1, 1, 1);
  Lending lending(set);
  const auto copying = client_of(set);
  ASSERT_TRUE(copying->ready());
  auto own = dense_parameters();
  lending.dense[0].gradient.assign(24, 1);
  own[0].gradient.assign(24, 1);
  ASSERT_TRUE(lending.client->push(kSamples, 1, lending.dense, {}));
  ASSERT_TRUE(copying->push(kSamples, 1, own, {}));
  EXPECT_EQ(copied(lending.dense[0]), own[0].value);
  EXPECT_EQ(copied(lending.dense[1]), own[1].value);
  EXPECT_TRUE(lending.loans[0]->gradient.empty());
}

}  // namespace
}  // namespace paddle::client
