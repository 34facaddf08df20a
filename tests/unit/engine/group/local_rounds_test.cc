// Ranks that train copies of their own, and meet once in a few batches.
#include "tests/unit/engine/group/group_client_fixture.h"

namespace paddle::strategy {
namespace {

wire::ParameterSet local_set(std::uint32_t trainers) {
  wire::ParameterSet set = set_of("sgd", kSmall, trainers);
  for (wire::ParameterSpec& spec : *set.mutable_parameters()) spec.set_is_delta(true);
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

// The stop is told in a round that is the last of one rank's data, and not of the other's.
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
