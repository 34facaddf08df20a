// Ranks that train copies of their own, and meet once in a few batches.
#include <array>

#include "tests/unit/engine/group/group_client_fixture.h"

namespace paddle::strategy {
namespace {

wire::ParameterSet local_set(std::uint32_t trainers) {
  wire::ParameterSet set = set_of("sgd", kSmall, trainers);
  for (wire::ParameterSpec& spec : *set.mutable_parameters()) spec.set_is_delta(true);
  set.set_dense_strategy(wire::STRATEGY_LOCAL_SGD);
  set.set_update_frequency(3);
  return set;
}

// A rank that trains a copy needs several times the memory of one that does not.
TEST(LocalRounds, CopiesAndMovesCountAsMemory) {
  constexpr std::uint64_t kElements = 24 + 7 + 16;  // with the room between parameters
  for (const bool is_local : {false, true}) {
    const wire::ParameterSet set = is_local ? local_set(1) : set_of("sgd", kSmall, 1);
    collective::as_ranks(collective::options_of(1), [&](collective::GroupOptions options) {
      auto group = collective::Group::join(std::move(options), collective::soon());
      ASSERT_TRUE(group) << group.error().message;
      const auto client =
          GroupClient::create(set, *std::move(group), {.bytes_max = 6 * 4 * kElements}, {});
      EXPECT_EQ(bool(client), !is_local);
      if (is_local) {
        EXPECT_EQ(client.error().code, Errc::kResource) << client.error().message;
      }
    });
  }
}

// The sum of a trainer's gradients for batches [0, batches) of the job.
std::vector<float> gradients_of(std::uint32_t trainer, std::uint64_t batches) {
  std::vector<float> sum(kSmall[0]);
  std::vector<float> one(kSmall[0]);
  for (std::uint64_t batch = 0; batch < batches; ++batch) {
    fill_gradient(one, trainer, batch, 0);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += one[i];
  }
  return sum;
}

TEST(LocalRounds, TrainersMoveAloneUntilARoundSetsAllToTheMeanBySamples) {
  constexpr std::uint32_t kTrainers = 3;
  constexpr std::uint64_t kBatches = 3;  // of a round
  wire::ParameterSet set = local_set(kTrainers);
  set.mutable_optimizer()->clear_schedule();
  set.mutable_optimizer()->clear_l2();
  set.mutable_optimizer()->clear_clip_value();
  const float rate = set.optimizer().learning_rate();
  std::vector<float> mean(kSmall[0]);
  std::uint64_t all_samples = 0;
  for (std::uint32_t trainer = 0; trainer < kTrainers; ++trainer) {
    std::uint64_t samples = 0;
    for (std::uint64_t batch = 0; batch < kBatches; ++batch) samples += samples_of(trainer, batch);
    const std::vector<float> sum = gradients_of(trainer, kBatches);
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += static_cast<float>(samples) * sum[i];
    all_samples += samples;
  }
  std::array<std::vector<float>, kTrainers> ends;
  as_trainers(set, [&](Rank& rank) {
    const auto values = [&] { return rank.dense[0].values(); };
    const std::vector<float> first(values().begin(), values().end());
    rank.run_pass(kBatches - 1);
    const std::vector<float> own = gradients_of(rank.rank, kBatches - 1);
    for (std::size_t i = 0; i < first.size(); ++i)
      EXPECT_NEAR(values()[i], first[i] - rate * own[i], 1e-6);
    rank.run_pass(1);
    for (std::size_t i = 0; i < first.size(); ++i) {
      EXPECT_NEAR(values()[i], first[i] - rate * mean[i] / static_cast<float>(all_samples), 1e-6);
    }
    ends[rank.rank].assign(values().begin(), values().end());
    EXPECT_TRUE(rank.client.finish_pass({}));
    EXPECT_TRUE(rank.client.leave());
  });
  EXPECT_EQ(ends[1], ends[0]);
  EXPECT_EQ(ends[2], ends[0]);
}

// The ranks learn of the stop in a round that uses the last data of one rank, but not of the other.
TEST(LocalRounds, AStopInTheLastRoundOfARankPausesAll) {
  as_trainers(local_set(2), [](Rank& rank) {
    const std::uint64_t batches = rank.rank == 0 ? 4 : 6;
    rank.run_pass(batches - 1);
    rank.client.ask_to_stop();
    rank.run_pass(1);
    EXPECT_EQ(rank.client.stop_asked(), rank.rank == 1);
    const auto totals =
        rank.client.stop_asked() ? rank.client.pause_pass({}) : rank.client.finish_pass({});
    ASSERT_TRUE(totals) << totals.error().message;
    EXPECT_TRUE(totals->paused);
    EXPECT_EQ(totals->dense.batches, 10U);
    EXPECT_EQ(rank.client.progress().batches, batches);
    EXPECT_TRUE(rank.client.leave());
  });
}

}  // namespace
}  // namespace paddle::strategy
