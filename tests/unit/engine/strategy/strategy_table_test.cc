#include "engine/strategy/strategy_table.h"

#include <set>

#include <gtest/gtest.h>

#include "engine/table/parameter_set.h"
#include "tests/unit/engine/client/client_fixture.h"

namespace paddle::strategy {
namespace {

constexpr std::uint32_t kTrainers = 2;

wire::ParameterSet set_of(wire::Strategy dense, wire::Strategy sparse) {
  wire::ParameterSet set = test::small_set("sgd", kTrainers);
  set.set_dense_strategy(dense);
  set.set_sparse_strategy(sparse);
  return set;
}

// Trainers with one complete push each.
pserver::Membership pushed() {
  pserver::Membership membership(kTrainers);
  for (pserver::Trainer& trainer : membership.trainers()) {
    trainer.push.emplace();
    trainer.push->parts_taken = trainer.push->parts;
  }
  return membership;
}

TEST(StrategyTable, NamesEveryStrategyOfTheProtocolOnce) {
  std::set<wire::Strategy> ids;
  for (const Strategy* const strategy : strategies()) {
    ids.insert(strategy->id);
    std::string name = wire::Strategy_Name(strategy->id).substr(sizeof("STRATEGY_") - 1);
    for (char& c : name) c = c == '_' ? c : static_cast<char>(c | 0x20);
    EXPECT_EQ(strategy->name, name);
    EXPECT_NE(strategy->make_policy, nullptr) << name;
  }
  EXPECT_EQ(ids.size(), strategies().size());
  EXPECT_EQ(ids.size(), static_cast<std::size_t>(wire::Strategy_ARRAYSIZE));
}

TEST(StrategyTable, TakesTheStrategyOfTheKindOfParameter) {
  const auto set = set_of(wire::STRATEGY_SYNC, wire::STRATEGY_ASYNC);
  EXPECT_TRUE(make_update_policy(set, false)->has_rounds());
  EXPECT_FALSE(make_update_policy(set, true)->has_rounds());
}

TEST(StrategyTable, ARoundTakesAllActiveTrainersOrNone) {
  const auto policy = make_update_policy(set_of(wire::STRATEGY_SYNC, wire::STRATEGY_SYNC), false);
  pserver::Membership membership = pushed();
  EXPECT_EQ(policy->next_update(membership).size(), 2U);
  membership.at(1).push.reset();
  EXPECT_TRUE(policy->next_update(membership).empty());
  bool all_connected = true;
  const pserver::Blockers blockers = policy->blockers(membership, 7);
  EXPECT_EQ(membership.names(blockers.is_one, all_connected) + blockers.debt,
            "trainer 1 to push step 7");
  EXPECT_FALSE(all_connected);
  membership.at(1).left = true;
  EXPECT_EQ(policy->next_update(membership).size(), 1U);
}

TEST(StrategyTable, APushAloneWaitsForTheSlowestTrainerUnderAStalenessBound) {
  auto set = set_of(wire::STRATEGY_ASYNC, wire::STRATEGY_ASYNC);
  pserver::Membership membership = pushed();
  membership.at(0).clock = 5;
  membership.at(1).push.reset();
  EXPECT_FALSE(make_update_policy(set, false)->holds_pushes());
  EXPECT_EQ(make_update_policy(set, false)->next_update(membership).size(), 1U);
  set.set_staleness_max(4);
  const auto policy = make_update_policy(set, false);
  EXPECT_TRUE(policy->holds_pushes());
  EXPECT_TRUE(policy->next_update(membership).empty());
  membership.at(1).clock = 1;
  EXPECT_EQ(policy->next_update(membership).size(), 1U);
}

TEST(StrategyTable, TheSlowestTrainersPushIsAppliedFirst) {
  const auto policy = make_update_policy(set_of(wire::STRATEGY_GEO, wire::STRATEGY_GEO), true);
  pserver::Membership membership = pushed();
  membership.at(0).clock = 2;
  membership.at(1).clock = 1;
  const auto next = policy->next_update(membership);
  ASSERT_EQ(next.size(), 1U);
  EXPECT_EQ(next.front()->id, 1U);
}

TEST(StrategyTable, OnlyAsyncDropsLateDenseGradients) {
  for (const Strategy* const strategy : strategies()) {
    auto set = set_of(strategy->id, strategy->id);
    set.set_async_lagged_grad_discard_ratio(2);
    const bool drops = strategy->id == wire::STRATEGY_ASYNC;
    EXPECT_EQ(make_update_policy(set, false)->discards(2 * kTrainers), drops) << strategy->name;
    EXPECT_FALSE(make_update_policy(set, false)->discards(2 * kTrainers - 1)) << strategy->name;
    EXPECT_FALSE(make_update_policy(set, true)->discards(1000)) << strategy->name;
    set.set_staleness_max(3);
    EXPECT_FALSE(make_update_policy(set, false)->discards(1000)) << strategy->name;
  }
}

TEST(StrategyTable, MovesAreAppliedWhole) {
  for (const Strategy* const strategy : strategies()) {
    auto set = set_of(strategy->id, strategy->id);
    set.mutable_optimizer()->set_learning_rate(0.25F);
    EXPECT_EQ(make_update_policy(set, false)->learning_rate(set.optimizer(), {}),
              strategy->id == wire::STRATEGY_GEO ? 1.0F : 0.25F)
        << strategy->name;
  }
}

TEST(StrategyTable, TrainersHalfIsThereWhereAPushIsNotAnsweredBeforeTheNextBatch) {
  for (const Strategy* const strategy : strategies()) {
    const bool is_straight = strategy->name != "half_async" && strategy->name != "geo";
    EXPECT_EQ(strategy->make_dense == nullptr, is_straight) << strategy->name;
    EXPECT_EQ(strategy->make_rows == nullptr, is_straight) << strategy->name;
    EXPECT_EQ(pushes_dense_straight(set_of(strategy->id, wire::STRATEGY_SYNC)), is_straight);
  }
}

// A node's sum, a trainer's copy, and tables beside a group are lost with a trainer.
TEST(StrategyTable, ATrainerReturnsUnlessSomethingIsLostWithIt) {
  for (const Strategy* const strategy : strategies()) {
    auto set = set_of(strategy->id, wire::STRATEGY_SYNC);
    const bool has_group = parameter::has_group(set);
    EXPECT_EQ(trainers_return(set), !has_group) << strategy->name;
    set.mutable_parameters()->RemoveLast();  // the only table
    EXPECT_EQ(trainers_return(set), strategy->id != wire::STRATEGY_LOCAL_SGD) << strategy->name;
    set.set_node_groups(true);
    EXPECT_FALSE(trainers_return(set)) << strategy->name;
  }
}

// Values are as old as half_async's queue for the kind that has it, and new for the other.
TEST(StrategyTable, EachKindOfParametersHasItsOwnStrategy) {
  for (const bool is_dense_late : {true, false}) {
    auto set = test::small_set("sgd", 1, 2, 2);
    set.set_dense_strategy(is_dense_late ? wire::STRATEGY_HALF_ASYNC : wire::STRATEGY_SYNC);
    set.set_sparse_strategy(is_dense_late ? wire::STRATEGY_SYNC : wire::STRATEGY_HALF_ASYNC);
    const auto client = client::client_of(set);
    ASSERT_TRUE(client->ready());
    auto dense = client::dense_parameters();
    auto rows = client::some_rows();
    ASSERT_TRUE(client->pull_dense(dense));
    ASSERT_TRUE(client->pull_rows(rows));
    const auto first_values = dense[0].value;
    const auto first_rows = rows[0].values;
    client::run_steps(*client, 1, 1, dense, rows, nullptr);
    ASSERT_TRUE(client->pull_rows(rows));
    EXPECT_EQ(dense[0].value == first_values, is_dense_late);
    EXPECT_EQ(rows[0].values == first_rows, !is_dense_late);
    ASSERT_TRUE(client->finish_pass({}));
    ASSERT_TRUE(client->pull_dense(dense));
    ASSERT_TRUE(client->pull_rows(rows));
    EXPECT_NE(dense[0].value, first_values);
    EXPECT_NE(rows[0].values, first_rows);
  }
}

}  // namespace
}  // namespace paddle::strategy
