// Dense parameters in the trainers: the bits of a pserver's shard, and who is told what goes wrong.
#include <latch>
#include <thread>

#include "tests/unit/engine/group/group_client_fixture.h"

namespace paddle::strategy {
namespace {

struct Case {
  std::string method;
  std::uint32_t trainers;
  std::vector<std::uint64_t> sizes;
  std::vector<std::uint64_t> batches = {3, 0, 5, 1};
};
void PrintTo(const Case& one, std::ostream* out) {
  *out << one.method << ", " << one.trainers << " trainers";
}

class SameBits : public testing::TestWithParam<Case> {};

// Target 6; traps 7, 8, 13, 14.
TEST_P(SameBits, AsOnAShardWithUnevenData) {
  const Case& one = GetParam();
  const auto set = set_of(one.method, one.sizes, one.trainers);
  const std::vector<std::uint64_t> batches(one.batches.begin(), one.batches.begin() + one.trainers);
  OnShard shard(set);
  const auto done = run_on_shard(shard, batches, 2);
  const test::TemporaryFolder folder;
  as_trainers(set, [&](Rank& rank) {
    for (int pass = 0; pass < 2; ++pass) {
      rank.run_pass(batches[rank.rank]);
      const Tally tally{{rank.rank + 1ULL}, {0.5}};
      const auto totals = rank.client.finish_pass(tally);
      ASSERT_TRUE(totals) << totals.error().message;
      EXPECT_FALSE(totals->paused);
      EXPECT_EQ(totals->tally.counts[0], one.trainers * (one.trainers + 1ULL) / 2);
      ASSERT_TRUE(rank.client.pull_dense(rank.dense));
    }
    EXPECT_EQ(rank.client.progress().samples, shard.samples());
    expect_values(rank, shard);
    // The last rank tests and saves; the others wait for it.
    if (rank.rank + 1 == one.trainers) {
      EXPECT_TRUE(rank.client.announce_busy("saving"));
      auto averages = parameters_of(set);
      ASSERT_TRUE(rank.client.pull_averages(averages, {}));
      for (const DenseParameter& parameter : averages) {
        EXPECT_TRUE(
            same_bits(parameter.values(), shard.plane(parameter.parameter, shard.state_width())));
      }
      const Status saved = rank.client.snapshots().save(folder / "pass-00001");
      EXPECT_TRUE(saved) << saved.error().message;
    }
    rank.meet();
    const Status left = rank.client.leave();
    EXPECT_TRUE(left) << left.error().message;
  });
  const auto reader = snapshot::SnapshotReader::open(folder / "pass-00001");
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_EQ(reader->info().trainer_cursors, done);
  EXPECT_EQ(reader->info().samples, shard.samples());
  EXPECT_EQ(reader->info().pass, 2U);
  expect_saved(*reader, set, shard);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const optim::Method& method : optim::methods()) {
    all.push_back({std::string(method.name), 2, kSmall});
    for (const std::uint32_t trainers : {1U, 2U, 3U, 4U})
      all.push_back({std::string(method.name), trainers, kSliced});
  }
  for (const std::uint32_t trainers : {1U, 3U, 4U}) all.push_back({"momentum", trainers, kSmall});
  all.push_back({"adam", 3, kManyBuckets});
  all.push_back({"adam", 3, kSliced, {4, 4, 4}});  // only their last batches are unlike
  return all;
}
INSTANTIATE_TEST_SUITE_P(Methods, SameBits, testing::ValuesIn(cases()), [](const auto& one) {
  return one.param.method + "With" + std::to_string(one.param.trainers) + "Of" +
         std::to_string(one.param.sizes[0]) + "No" + std::to_string(one.index);
});

TEST(GroupClient, RanksOfAHostReadGradientsAndValuesInPlace) {
  const auto set = set_of("sgd", kManyBuckets, 2);
  as_trainers(set, collective::options_of(2, collective::ways()[1]), [](Rank& rank) {
    rank.run_pass(2);
    EXPECT_GE(collective::arrays_of_others(), 4U);  // both ranks, two each
    rank.meet();
  });
}

TEST(GroupClient, SumsWhereTheJobSaysSo) {
  auto set = set_of("sgd", kSliced, 2);
  set.set_merge(wire::MERGE_SUM);
  OnShard shard(set);
  run_on_shard(shard, {2, 1});
  as_trainers(set, [&](Rank& rank) {
    rank.run_pass(2 - rank.rank);
    ASSERT_TRUE(rank.client.finish_pass({}));
    EXPECT_TRUE(same_bits(rank.dense[0].values(), shard.values(0)));
    EXPECT_TRUE(rank.client.leave());
  });
}

TEST(GroupClient, Trap09SamplesBeyond32BitsGuideTheSchedule) {
  constexpr std::uint64_t kScale = 3'000'000'000;
  const auto set = set_of("adam", kSliced, 2);
  OnShard shard(set, kScale);
  run_on_shard(shard, {3, 2});
  ASSERT_GT(shard.samples(), std::uint64_t{1} << 33U);
  as_trainers(set, [&](Rank& rank) {
    rank.scale = kScale;
    rank.run_pass(3 - rank.rank);
    ASSERT_TRUE(rank.client.finish_pass({}));
    EXPECT_EQ(rank.client.progress().samples, shard.samples());
    EXPECT_TRUE(same_bits(rank.dense[0].values(), shard.values(0)));
    EXPECT_TRUE(rank.client.leave());
  });
}

// One of them saves before it asks.
TEST(GroupClient, AsksAllWhetherAnySaysYes) {
  for (const auto& sizes : {kSmall, kSliced}) {
    const auto set = set_of("sgd", sizes, 3);
    OnShard shard(set);
    run_on_shard(shard, {1, 1, 1});
    const test::TemporaryFolder folder;
    as_trainers(set, [&](Rank& rank) {
      const auto asks = [&](bool own) {
        const auto answer = rank.client.is_any(own);
        EXPECT_TRUE(answer) << answer.error().message;
        return answer && *answer;
      };
      EXPECT_TRUE(asks(rank.rank == 2));
      rank.run_pass(1);
      EXPECT_TRUE(asks(rank.rank != 1));
      ASSERT_TRUE(rank.client.finish_pass({}));
      if (rank.rank == 1) {
        ASSERT_TRUE(rank.client.announce_busy("saving"));
        ASSERT_TRUE(rank.client.snapshots().save(folder / "pass-00000"));
      }
      EXPECT_FALSE(asks(false));
      EXPECT_TRUE(same_bits(rank.dense[0].values(), shard.values(0)));
      EXPECT_TRUE(rank.client.leave());
    });
  }
}

// No single round takes long, and nothing is told of the trainer itself meanwhile.
TEST(GroupClient, ATrainerWithoutDataTellsWhoTrains) {
  const auto set = set_of("sgd", kSmall, 3);
  auto options = collective::options_of(3);
  std::vector<std::vector<std::uint32_t>> told;
  options[0].on_waiting = [&](std::span<const std::uint32_t> ranks, Duration) {
    told.emplace_back(ranks.begin(), ranks.end());
  };
  as_trainers(set, std::move(options), [&](Rank& rank) {
    for (int i = 0; i < 6 && rank.rank == 2; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      ASSERT_TRUE(rank.push());
    }
    ASSERT_TRUE(rank.client.finish_pass({}));
    EXPECT_TRUE(rank.client.leave());
  });
  EXPECT_NE(std::ranges::find(told, std::vector<std::uint32_t>{2}), told.end());
}

class OverWay : public testing::TestWithParam<collective::Way> {};
INSTANTIATE_TEST_SUITE_P(Ways, OverWay, testing::ValuesIn(collective::ways()),
                         [](const auto& way) { return std::string(way.param.name); });

TEST_P(OverWay, Trap15GradientsAreTheTrainersAgainAfterAPush) {
  constexpr std::uint64_t kSteps = 15;
  const auto set = set_of("sgd", kManyBuckets, 2);
  OnShard shard(set);
  run_on_shard(shard, {kSteps, kSteps});
  as_trainers(
      set,
      [&](Rank& rank) {
        for (std::uint64_t step = 0; step < kSteps; ++step) {
          ASSERT_TRUE(rank.push());
          // Bytes of 0xff are a NaN.
          for (DenseParameter& one : rank.dense) {
            std::memset(one.gradients().data(), 0xff, one.gradients().size_bytes());
          }
        }
        ASSERT_TRUE(rank.client.finish_pass({}));
        expect_values(rank, shard);
        EXPECT_TRUE(rank.client.leave());
      },
      "", GetParam());
}

// Traps 4, 14: the others hear whose gradient it was.
TEST(GroupClient, NamesTheRankAndTheParameterOfANaN) {
  std::latch all_are_ready(3);  // another one's error may end ready() too
  as_trainers(set_of("sgd", kSliced, 3), [&](Rank& rank) {
    all_are_ready.arrive_and_wait();
    Status pushed;
    if (rank.rank == 1) {
      for (DenseParameter& one : rank.dense) fill_gradient(one.gradients(), 1, 1, one.parameter);
      rank.dense[1].gradients()[3] = std::nanf("");
      pushed = rank.client.push(1, 1, rank.dense, {});
    } else {
      pushed = rank.push();
    }
    ASSERT_FALSE(pushed);
    EXPECT_EQ(pushed.error().code, Errc::kFailed);
    EXPECT_NE(pushed.error().message.find("trainer 1 pushed a gradient of 'p1' that is not finite"),
              std::string::npos)
        << pushed.error().message;
  });
}

// Trap 5: before any gradient is added.
TEST(GroupClient, NamesWhatJobsDifferIn) {
  collective::as_ranks(collective::options_of(2), [&](collective::GroupOptions options) {
    auto set = set_of("sgd", kSmall, 2);
    const std::uint32_t rank = options.rank;
    if (rank == 1) set.set_seed(8);
    auto group = collective::Group::join(std::move(options), collective::soon());
    ASSERT_TRUE(group);
    auto client = GroupClient::create(set, *std::move(group), {}, {});
    ASSERT_TRUE(client);
    Status ended = (*client)->ready();
    auto dense = parameters_of(set);
    if (ended) ended = (*client)->pull_dense(dense);
    for (auto& parameter : dense) std::ranges::fill(parameter.gradients(), 0.0F);
    if (ended) ended = (*client)->push(1, 1, dense, {});
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().code, Errc::kUsage);
    EXPECT_NE(ended.error().message.find("seed"), std::string::npos) << ended.error().message;
  });
}

TEST(GroupClient, RefusesAnotherNumberOfTrainers) {
  collective::as_ranks(collective::options_of(1), [&](collective::GroupOptions options) {
    auto group = collective::Group::join(std::move(options), collective::soon());
    ASSERT_TRUE(group);
    auto set = set_of("sgd", kSmall, 2);
    const auto client = GroupClient::create(set, *std::move(group), {}, {});
    ASSERT_FALSE(client);
    EXPECT_EQ(client.error().message, "the group has 1 ranks, but the job has 2 trainers");
  });
}

}  // namespace
}  // namespace paddle::strategy
