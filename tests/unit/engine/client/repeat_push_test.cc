// The push in which a trainer died, on whatever ports had it then.
#include "tests/unit/engine/client/client_fixture.h"

namespace paddle::client {
namespace {

constexpr std::uint32_t kKindPorts = 2;  // dense, and sparse
constexpr unsigned kMasks = 1U << (2 * kKindPorts);

class Shards {
 public:
  Shards() {
    for (std::uint32_t i = 0; i < 2 * kKindPorts; ++i) {
      shards_.push_back(std::make_shared<pserver::Shard>(
          pserver::ShardOptions{.make_policy = strategy::make_update_policy,
                                .index = i % kKindPorts,
                                .is_sparse = i >= kKindPorts,
                                .server_generation = 3,
                                .lost_trainer_grace = std::chrono::seconds(30)}));
    }
  }
  std::unique_ptr<ShardChannels> incarnation(const wire::ParameterSet& set,
                                             std::uint32_t incarnation) {
    ShardChannels::Links dense;
    ShardChannels::Links sparse;
    for (std::size_t i = 0; i < shards_.size(); ++i) {
      (i < kKindPorts ? dense : sparse)
          .push_back(net::make_local_link(shards_[i], {Role::kTrainer, 0}));
    }
    auto channels = ShardChannels::join({.parameters = set, .lane = {.incarnation = incarnation}},
                                        std::move(dense), std::move(sparse));
    EXPECT_TRUE(channels) << channels.error().message;
    EXPECT_TRUE((*channels)->ready());
    return *std::move(channels);
  }

 private:
  std::vector<std::shared_ptr<pserver::Shard>> shards_;
};

struct Values {
  std::vector<LargeArray<float>> dense;
  std::vector<float> rows;
  friend bool operator==(const Values&, const Values&) = default;
};

class RepeatPush : public testing::Test {
 protected:
  void push(ShardChannels& channels) {
    ASSERT_TRUE(channels.push({1, kSamples, 2.5}, dense_, rows_));
  }
  // Leaves out the ports that `mask` does not name.
  void push_to(ShardChannels& channels, unsigned mask) {
    std::size_t port = 0;
    for (ClientLanes* lanes : {&channels.dense().lanes(), &channels.sparse().lanes()}) {
      LinkPositions others;
      for (std::size_t i = 0; i < kKindPorts; ++i, ++port) {
        others.add({0, 0, (mask >> port & 1U) != 0 ? 1U : 2U}, true);
      }
      lanes->set_link_positions(others);
      lanes->set_position({0, 0, 1});
    }
    push(channels);
  }
  Values values(ShardChannels& channels) {
    Values result;
    EXPECT_TRUE(channels.pull(dense_));
    EXPECT_TRUE(channels.pull(rows_));
    for (const DenseParameter& one : dense_) result.dense.push_back(one.value);
    for (const SparseRows& one : rows_)
      result.rows.insert(result.rows.end(), one.values.begin(), one.values.end());
    return result;
  }

  wire::ParameterSet set_ = full_set("adam", kKindPorts, kKindPorts);
  decltype(dense_parameters()) dense_ = dense_parameters();
  decltype(some_rows()) rows_ = some_rows();
};

TEST_F(RepeatPush, EachPortAppliesItOnceWhateverPortsHadIt) {
  dense_[0].gradient.assign(24, 0.25F);
  dense_[1].gradient.assign(4, -0.5F);
  rows_[0].gradients.assign(3 * rows_[0].ids.size(), 0.125F);
  Shards undisturbed;
  const auto whole = undisturbed.incarnation(set_, 0);
  for (int i = 0; i < 3; ++i) push(*whole);
  const Values expected = values(*whole);
  for (unsigned mask = 0; mask < kMasks; ++mask) {
    SCOPED_TRACE(mask);
    Shards shards;
    {
      const auto lost = shards.incarnation(set_, 0);
      push(*lost);
      push_to(*lost, mask);
    }
    const auto back = shards.incarnation(set_, 1);
    const bool is_whole = mask + 1 == kMasks;
    EXPECT_EQ(back->progress().batches, is_whole ? 2U : 1U);
    EXPECT_EQ(back->progress().is_split, mask != 0 && !is_whole);
    if (!is_whole) {
      ASSERT_TRUE(back->repeat_push({0, 0, 2}, {1, kSamples, 2.5}, dense_,
                                    std::span<const SparseRows>(rows_)));
    }
    EXPECT_EQ(back->progress().batches, 2U);
    EXPECT_FALSE(back->progress().is_split);
    EXPECT_FALSE(back->is_behind());
    push(*back);
    EXPECT_TRUE(values(*back) == expected);
  }
}

// Rows that are pushed at once are not kept: they would be lost if an empty push took their place.
TEST_F(RepeatPush, APushOfAKindWithoutRoundsIsLeftToTheTrainer) {
  set_.set_sparse_strategy(wire::STRATEGY_ASYNC);
  dense_[0].gradient.assign(24, 0.25F);
  dense_[1].gradient.assign(4, -0.5F);
  rows_[0].gradients.assign(3 * rows_[0].ids.size(), 0.125F);
  Shards undisturbed;
  const auto whole = undisturbed.incarnation(set_, 0);
  for (int i = 0; i < 2; ++i) push(*whole);
  const Values expected = values(*whole);
  Shards shards;
  {
    const auto lost = shards.incarnation(set_, 0);
    push(*lost);
    push_to(*lost, 1);  // the first dense port
  }
  const auto back = shards.incarnation(set_, 1);
  EXPECT_TRUE(back->progress().is_split);
  ASSERT_TRUE(
      back->repeat_push({0, 0, 2}, {1, kSamples, 2.5}, dense_, std::span<const SparseRows>()));
  EXPECT_FALSE(back->progress().is_split);
  EXPECT_EQ(back->progress().batches, 1U);
  EXPECT_TRUE(back->is_behind());
  push(*back);
  EXPECT_EQ(back->is_behind(), false);
  EXPECT_TRUE(values(*back) == expected);
}

// Some ports have the trainer's next push, as when another pserver was lost and is behind.
TEST_F(RepeatPush, AStopIsHeardWithThePushAfterWhichNoPortIsAhead) {
  for (const auto sparse : {wire::STRATEGY_ASYNC, wire::STRATEGY_SYNC}) {
    set_.set_dense_strategy(wire::STRATEGY_ASYNC);
    set_.set_sparse_strategy(sparse);
    dense_[0].gradient.assign(24, 0.25F);
    dense_[1].gradient.assign(4, -0.5F);
    rows_[0].gradients.assign(3 * rows_[0].ids.size(), 0.125F);
    Shards shards;
    {
      const auto lost = shards.incarnation(set_, 0);
      push(*lost);
      push_to(*lost, 1);  // the first dense port
    }
    const auto back = strategy::make_client(shards.incarnation(set_, 1), {});
    ASSERT_TRUE(back->ready());
    back->ask_to_stop();
    ASSERT_TRUE(back->push(kSamples, 2.5, dense_, rows_));
    EXPECT_TRUE(back->stop_asked()) << "not only at the end of the pass";
  }
}

// It may have been lost when the others had heard already.
TEST_F(RepeatPush, APauseGivesTheNextProcessTheSame) {
  dense_[0].gradient.assign(24, 0.25F);
  dense_[1].gradient.assign(4, -0.5F);
  rows_[0].gradients.assign(3 * rows_[0].ids.size(), 0.125F);
  Shards shards;
  const Tally told{{2, 1}, {0.5}};
  const Tally other{{1, 1}, {0.25}};
  {
    const auto lost = shards.incarnation(set_, 0);
    push(*lost);
    ASSERT_TRUE(lost->end_pass(told, false));
    ASSERT_TRUE(lost->end_pass(told, true));
  }
  const auto back = shards.incarnation(set_, 1);
  EXPECT_EQ(back->progress().pauses, 1U);
  back->repeat_end(true);
  const auto again = back->end_pass(other, true);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(again->paused);
  EXPECT_EQ(again->tally.counts, told.counts);
  EXPECT_EQ(again->tally.sums, told.sums);
  EXPECT_EQ(back->progress().pauses, 1U);
  push(*back);
}

}  // namespace
}  // namespace paddle::client
