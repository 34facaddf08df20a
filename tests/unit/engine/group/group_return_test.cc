// Groups whose ranks are lost and come back: all go on from a savepoint that each of them has kept,
// and end with the bits of the same job on one shard without a loss.
#include <latch>

#include "tests/unit/engine/group/group_client_fixture.h"

namespace paddle::strategy {
namespace {

using RankWork = std::function<void(Rank&)>;

// One incarnation of each rank, in one group. `bears_loss`: another rank may be lost before it
// begins.
void as_lives(const wire::ParameterSet& set, const Memories& memories, const RankWork& work,
              const GroupClient::Flags& flags = {}, const std::string& resumed = "",
              bool bears_loss = false) {
  collective::as_ranks(
      collective::options_of(set.num_trainers()), [&](collective::GroupOptions options) {
        const std::uint32_t rank = options.rank;
        auto group = collective::Group::join(std::move(options), collective::soon());
        ASSERT_TRUE(group) << group.error().message;
        auto client = GroupClient::create(set, *std::move(group), {}, flags, {}, memories.of(rank));
        if (bears_loss && (!client || !(*client)->ready())) return;
        ASSERT_TRUE(client) << client.error().message;
        const bool is_running = (*client)->progress().is_running;
        if (!bears_loss) return train(set, **client, rank, is_running ? "" : resumed, work);
        Rank back{rank, **client, parameters_of(set)};
        ASSERT_TRUE((*client)->pull_dense(back.dense));
        work(back);
      });
}

Tally tally_of(std::uint32_t rank) {
  std::vector<std::uint64_t> examples;
  for (std::uint64_t i = 0; i < 50; ++i) examples.push_back((i * rank) << 33U | (i % 2));
  ScoreHistogram scores;
  scores.add(examples);
  GroupedScores grouped(GroupedScores::kSentMax);
  std::vector<GroupedScores::Example> of_groups;
  for (const std::uint64_t example : examples) of_groups.push_back({rank % 2, example});
  grouped.add(of_groups);
  return {{rank + 1ULL, 10}, {0.5 * rank}, {scores}, {grouped}};
}

class GroupReturn : public testing::TestWithParam<const char*> {};

TEST_P(GroupReturn, GoesOnInAPassWithTheBitsAndTotalsOfAShard) {
  for (const auto& sizes : {kSmall, kSliced, kManyBuckets}) {
    const auto set = returning(set_of(GetParam(), sizes, 3));
    const std::vector<std::uint64_t> batches{4, 0, 6};
    OnShard shard(set);
    auto done = run_on_shard(shard, batches);
    const double cost_of_first = shard.cost();
    run_on_shard(shard, batches, done);
    Memories memories(3);
    as_lives(set, memories, [&](Rank& rank) {
      EXPECT_FALSE(rank.client.progress().is_running);
      rank.run_pass(batches[rank.rank]);
      ASSERT_TRUE(rank.client.finish_pass(tally_of(rank.rank)));
      const std::uint64_t before = rank.rank == 0 ? 2 : rank.rank == 2 ? 3 : 0;
      for (std::uint64_t i = 0; i < before && rank.push(); ++i) {
      }
      // Rank 0 is lost after its second batch.
      if (rank.rank == 1) {
        EXPECT_FALSE(rank.client.finish_pass({}));
      }
    });
    as_lives(set, memories, [&](Rank& rank) {
      const client::JobProgress progress = rank.client.progress();
      EXPECT_TRUE(progress.is_running);
      EXPECT_TRUE(progress.is_within_pass);
      EXPECT_EQ(progress.passes, 1U);
      EXPECT_EQ(progress.passes_loaded, 0U);
      // Whether the others had finished that one when it was lost is up to them.
      if (rank.rank == 1) {
        EXPECT_EQ(progress.batches, 0U);
      } else {
        EXPECT_TRUE(progress.batches == 1 || progress.batches == 2) << progress.batches;
      }
      rank.done = batches[rank.rank] + progress.batches;
      rank.run_pass(batches[rank.rank] - progress.batches);
      const auto totals = rank.client.finish_pass(tally_of(rank.rank));
      ASSERT_TRUE(totals);
      EXPECT_EQ(totals->tally.counts, (std::vector<std::uint64_t>{6, 30}));
      EXPECT_DOUBLE_EQ(totals->cost, shard.cost() - cost_of_first);
      EXPECT_EQ(totals->dense.pushes, 10U);
      ASSERT_TRUE(rank.client.pull_dense(rank.dense));
      EXPECT_EQ(rank.client.progress().samples, shard.samples());
      expect_values(rank, shard);
      EXPECT_TRUE(rank.client.leave());
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, GroupReturn, testing::Values("sgd", "adam", "momentum"));

TEST(GroupReturns, BetweenPassesTheEndIsToldAgain) {
  const auto set = returning(set_of("adam", kSliced, 2));
  Memories memories(2);
  ScoreHistogram scores;
  GroupedScores grouped;
  for (const std::uint32_t rank : {0U, 1U}) {
    scores.add(tally_of(rank).histograms[0]);
    grouped.add(tally_of(rank).grouped[0]);
  }
  const Tally all{{3, 20}, {0.5}, {scores}, {grouped}};
  client::PassTotals told;
  const auto expect_told = [&](const Result<client::PassTotals>& totals, bool paused) {
    ASSERT_TRUE(totals);
    EXPECT_EQ(totals->tally.counts, all.counts);
    EXPECT_EQ(totals->tally.sums, all.sums);
    EXPECT_EQ(totals->tally.histograms, all.histograms);
    EXPECT_EQ(totals->tally.grouped, all.grouped);
    EXPECT_EQ(totals->paused, paused);
  };
  as_lives(set, memories, [&](Rank& rank) {
    rank.run_pass(3);
    const auto totals = rank.client.finish_pass(tally_of(rank.rank));
    expect_told(totals, false);
    if (rank.rank == 0) told = *totals;
  });
  as_lives(set, memories, [&](Rank& rank) {
    const client::JobProgress progress = rank.client.progress();
    EXPECT_FALSE(progress.is_within_pass);
    EXPECT_EQ(progress.passes, 1U);
    EXPECT_EQ(progress.pauses, 0U);
    rank.client.repeat_end(client::PassEnd::kFinish);
    const auto totals = rank.client.finish_pass({});
    expect_told(totals, false);
    EXPECT_EQ(totals->samples, told.samples);
    EXPECT_EQ(totals->cost, told.cost);
    EXPECT_EQ(totals->dense.pushes, 6U);
    expect_told(rank.client.pause_pass(tally_of(rank.rank)), true);
  });
  as_lives(set, memories, [&](Rank& rank) {
    EXPECT_EQ(rank.client.progress().pauses, 1U);
    rank.client.repeat_end(client::PassEnd::kPause);
    expect_told(rank.client.pause_pass({}), true);
    EXPECT_EQ(rank.client.progress().pauses, 1U) << "it was the same one";
    ASSERT_TRUE(rank.push());
    EXPECT_TRUE(rank.client.leave());
  });
}

TEST(GroupReturns, WithoutTheMemoryOfOneRankAllGoOnFromTheSnapshot) {
  const auto set = returning(set_of("adam", kSliced, 3));
  const std::vector<std::uint64_t> batches{3, 3, 3};
  OnShard shard(set);
  run_on_shard(shard, batches, 2);
  const test::TemporaryFolder folder;
  const std::string saved = folder / "pass-00000";
  Memories memories(3);
  as_lives(set, memories, [&](Rank& rank) { run_pass_and_lose(2, rank, 3, saved); });
  memories.lose(1);
  std::latch all_finished(3);  // a rank that ends before takes the others along
  const auto finish = [&](Rank& rank) {
    EXPECT_EQ(rank.client.progress().passes, 1U);
    EXPECT_FALSE(rank.client.progress().is_within_pass);
    rank.done = 3;
    rank.run_pass(3);
    EXPECT_TRUE(rank.client.finish_pass({}));
    all_finished.arrive_and_wait();
    expect_values(rank, shard);
  };
  as_lives(
      set, memories,
      [&](Rank& rank) {
        EXPECT_FALSE(rank.client.progress().is_running);
        finish(rank);
      },
      {}, saved);
  as_lives(set, memories, [&](Rank& rank) {
    EXPECT_TRUE(rank.client.progress().is_running) << "of the new history";
    EXPECT_EQ(rank.client.progress().passes, 2U);
    expect_values(rank, shard);
    EXPECT_TRUE(rank.client.leave());
  });
}

// Savepoints do not have what roundings have left out, so there are some at the ends of passes
// alone.
TEST(GroupReturns, OnAWireOfBf16TheyGoBackToTheBeginOfThePass) {
  const auto set = returning(set_of("adam", kManyBuckets, 2));
  const GroupClient::Flags flags{.packs = true};
  const auto passes = [](Rank& rank, int count) {
    for (int pass = 0; pass < count; ++pass) {
      rank.run_pass(3);
      ASSERT_TRUE(rank.client.finish_pass({}));
    }
  };
  std::vector<std::vector<float>> values;
  as_lives(
      set, Memories(2),
      [&](Rank& rank) {
        passes(rank, 2);
        if (rank.rank != 0) return;
        for (const DenseParameter& one : rank.dense) {
          values.emplace_back(one.values().begin(), one.values().end());
        }
      },
      flags);
  Memories memories(2);
  as_lives(
      set, memories,
      [&](Rank& rank) {
        passes(rank, 1);
        EXPECT_TRUE(rank.push());
      },
      flags);
  as_lives(
      set, memories,
      [&](Rank& rank) {
        EXPECT_EQ(rank.client.progress().passes, 1U);
        EXPECT_EQ(rank.client.progress().batches, 0U);
        rank.done = 3;
        passes(rank, 1);
        for (std::size_t p = 0; p < rank.dense.size(); ++p) {
          EXPECT_TRUE(same_bits(rank.dense[p].values(), values[p]));
        }
      },
      flags);
}

// Some ranks are lost at random places, in the midst of a rejoin too, and once in a while one
// loses its memory as well: then all begin anew.
TEST(GroupReturns, RandomLossesChangeNoBit) {
  constexpr std::uint64_t kBatches = 12;
  constexpr std::uint64_t kPasses = 3;
  const auto set = returning(set_of("adam", kSliced, 4));
  OnShard shard(set);
  run_on_shard(shard, std::vector<std::uint64_t>(4, kBatches), kPasses);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Rng rng(seed);
    Memories memories(4);
    std::atomic<int> ended = 0;
    for (int incarnation = 0; incarnation < 40 && ended < 4; ++incarnation) {
      const auto victim = static_cast<std::uint32_t>(rng.below(4));
      const std::uint64_t steps = incarnation == 39 ? 1000 : rng.below(14);
      if (rng.below(15) == 0) memories.lose(victim);
      ended = 0;
      const auto work = [&](Rank& rank) {
        std::uint64_t left = rank.rank == victim ? steps : 1000;
        client::JobProgress progress = rank.client.progress();
        rank.done = progress.passes * kBatches + progress.batches;
        while (progress.passes < kPasses) {
          for (std::uint64_t i = progress.batches; i < kBatches; ++i) {
            if (left-- == 0 || !rank.push()) return;
          }
          if (left-- == 0 || !rank.client.finish_pass({})) return;
          progress = rank.client.progress();
        }
        ASSERT_TRUE(rank.client.pull_dense(rank.dense));
        expect_values(rank, shard);
        EXPECT_EQ(progress.samples, shard.samples());
        if (rank.client.leave()) ++ended;
      };
      as_lives(set, memories, work, {}, "", true);
    }
    EXPECT_EQ(ended, 4) << seed;
  }
}

}  // namespace
}  // namespace paddle::strategy
