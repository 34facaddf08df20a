#include "engine/group/group.h"

#include <sched.h>

#include <cmath>
#include <limits>

#include "tests/unit/engine/group/group_fixture.h"

namespace paddle::collective {
namespace {

// As a pserver would merge them.
std::vector<float> merged(std::uint32_t size, std::size_t count, std::span<const float> shares,
                          std::uint64_t step = 0) {
  std::vector<float> sum(count, 0.0F);
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    const auto gradient = gradient_of(rank, count, step);
    for (std::size_t i = 0; i < count; ++i) sum[i] += shares[rank] * gradient[i];
  }
  return sum;
}

class GroupOverWay : public ::testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(Ways, GroupOverWay, ::testing::ValuesIn(ways()),
                         [](const auto& way) { return std::string(way.param.name); });
INSTANTIATE_TEST_SUITE_P(Lanes, GroupOverWay, ::testing::ValuesIn(ways_of_lanes()),
                         [](const auto& way) { return std::string(way.param.name); });

TEST_P(GroupOverWay, Trap11And13AllReduceHasThePserversBitsForAnySize) {
  for (const std::uint32_t size : {1U, 2U, 3U, 5U, 7U}) {
    std::vector<float> shares;
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      shares.push_back(size == 1 ? 1.0F : static_cast<float>(rank + 1) / 28);
    }
    const std::vector<std::size_t> counts{
        0,      1, size - 1, size + 1, whole_bytes_max(size) / 4, whole_bytes_max(size) / 4 + 1,
        300'001};
    std::vector<std::vector<float>> sums;
    for (const std::size_t count : counts) {
      sums.push_back(size == 1 ? gradient_of(0, count) : merged(size, count, shares));
    }
    as_groups(options_of(size, GetParam()), [&](Group& group) {
      for (std::size_t i = 0; i < counts.size(); ++i) {
        const std::size_t count = counts[i];
        auto bucket = gradient_of(group.rank(), count);
        ASSERT_TRUE(group.reduce_scatter(bucket, shares).wait());
        const Range own = group.own_slice(count * 4);
        EXPECT_TRUE(same_bits(std::span(bucket).subspan(own.begin / 4, own.size() / 4),
                              std::span(sums[i]).subspan(own.begin / 4, own.size() / 4)));
        ASSERT_TRUE(group.all_gather(bucket).wait());
        EXPECT_TRUE(same_bits(bucket, sums[i]))
            << count << " on " << group.rank() << " of " << size;
      }
    });
  }
}

TEST_P(GroupOverWay, ManyBucketsMayBeUnderWay) {
  constexpr std::uint32_t kSize = 3;
  const std::vector<float> shares(kSize, 0.5F);
  std::vector<std::vector<float>> sums;
  for (std::size_t i = 0; i < 20; ++i) sums.push_back(merged(kSize, 1000 * i + i, shares, i));
  as_groups(options_of(kSize, GetParam()), [&](Group& group) {
    std::vector<std::vector<float>> buckets;
    std::vector<Pending> pending;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      buckets.push_back(gradient_of(group.rank(), sums[i].size(), i));
    }
    for (auto& bucket : buckets) pending.push_back(group.reduce_scatter(bucket, shares));
    gather_all(group, std::vector<std::span<float>>(buckets.begin(), buckets.end()), pending);
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      EXPECT_TRUE(same_bits(buckets[i], sums[i]));
    }
  });
}

// A segment's tail is read along with its header, and what comes may be a rank state.
TEST_P(GroupOverWay, RankStatesAmongSegmentsChangeNoSum) {
  constexpr std::uint32_t kSize = 3;
  const std::vector<float> shares(kSize, 0.5F);
  std::vector<std::vector<float>> sums;  // two of each step
  for (std::uint64_t step = 0; step < 40; ++step) {
    for (const std::size_t count : {std::size_t{9'000}, std::size_t{40'000}}) {
      sums.push_back(merged(kSize, count, shares, step));
    }
  }
  as_groups(options_of(kSize, GetParam()), [&](Group& group) {
    std::atomic<bool> has_ended = false;
    std::thread states([&] {
      for (Rng rng(group.rank()); !has_ended;) {
        group.set_activity(std::string(rng.below(60), 'a'));
        std::this_thread::sleep_for(std::chrono::microseconds(rng.below(200)));
      }
    });
    for (std::size_t i = 0; i < sums.size(); ++i) {
      auto bucket = gradient_of(group.rank(), sums[i].size(), i / 2);
      const bool is_there =
          group.reduce_scatter(bucket, shares).wait() &&
          (bucket.size() * 4 <= whole_bytes_max(kSize) || group.all_gather(bucket).wait());
      EXPECT_TRUE(is_there && same_bits(bucket, sums[i])) << i / 2;
    }
    has_ended = true;
    states.join();
  });
}

TEST_P(GroupOverWay, Trap12BothSidesSendAtOnceWithoutADeadlock) {
  const std::vector<float> shares{0.5F, 0.5F};
  const std::vector<float> sum = merged(2, 4'000'000, shares);
  as_groups(options_of(2, GetParam()), [&](Group& group) {
    auto bucket = gradient_of(group.rank(), sum.size());
    ASSERT_TRUE(group.reduce_scatter(bucket, shares).wait());
    ASSERT_TRUE(group.all_gather(bucket).wait());
    EXPECT_TRUE(same_bits(bucket, sum));
  });
}

TEST_P(GroupOverWay, AStepTellsEveryRanksFactsAndCarriesASmallGradient) {
  as_groups(options_of(4, GetParam()), [](Group& group) {
    for (std::uint64_t step = 1; step <= 20; ++step) {
      StepInfo own{.step = step, .plan_hash = 5, .samples = 10 + group.rank(), .cost = 0.5};
      own.stop = step == 20 && group.rank() == 3;
      auto carried = gradient_of(group.rank(), 1000, step);
      const auto infos = group.begin_step(own, carried);
      ASSERT_TRUE(infos) << infos.error().message;
      ASSERT_EQ(infos->size(), 4U);
      for (std::uint32_t rank = 0; rank < 4; ++rank) {
        EXPECT_EQ((*infos)[rank].samples, 10 + rank);
        EXPECT_EQ((*infos)[rank].stop, step == 20 && rank == 3);  // trap 17: heard in one step
      }
      EXPECT_TRUE(same_bits(carried, merged(4, 1000, mean_shares(*infos), step)));
    }
  });
}

TEST_P(GroupOverWay, ABroadcastAndATallyReachEveryRank) {
  as_groups(options_of(5, GetParam()), [](Group& group) {
    auto data = gradient_of(group.rank(), 200'000);
    ASSERT_TRUE(group.broadcast(3, std::as_writable_bytes(std::span(data))).wait());
    EXPECT_TRUE(same_bits(data, gradient_of(3, 200'000)));
    Tally own;  // a rank without data has counted nothing
    // The lengths differ.
    const auto scores_to = [](std::uint64_t end) {
      std::vector<std::uint64_t> examples;
      for (std::uint64_t i = 0; i < end; ++i) examples.push_back(i << 32U);
      return examples;
    };
    ScoreHistogram scores, all_scores;
    auto examples = scores_to(100 * group.rank());
    scores.add(examples);
    if (group.rank() != 2) own = {{group.rank(), 1}, {0.5}, {scores}};
    const auto total = group.sum(own);
    ASSERT_TRUE(total) << total.error().message;
    EXPECT_EQ(total->counts, (std::vector<std::uint64_t>{8, 4}));
    EXPECT_EQ(total->sums, std::vector<double>{2});
    for (const std::uint64_t end : {0U, 100U, 300U, 400U}) {
      examples = scores_to(end);
      all_scores.add(examples);
    }
    EXPECT_EQ(total->histograms, std::vector{all_scores});
    EXPECT_TRUE(group.barrier());
    EXPECT_EQ(group.hosts().size(), 5U);
    EXPECT_EQ(group.hosts()[0], group.hosts()[4]);
  });
}

TEST(GroupTest, Trap07And08And09UnevenSamplesAreWeightedExactly) {
  const StepInfo none{};
  StepInfo some;
  some.samples = 3'000'000'000;
  StepInfo more;
  more.samples = 9'000'000'000;
  const std::vector<StepInfo> all{some, none, more};
  EXPECT_EQ(total_samples(all), 12'000'000'000U);
  EXPECT_EQ(mean_shares(all), (std::vector<float>{0.25F, 0, 0.75F}));
  EXPECT_EQ(sum_shares(all), (std::vector<float>{1, 0, 1}));
  EXPECT_EQ(mean_shares(std::vector{none, some}), (std::vector<float>{0, 1}));
  EXPECT_EQ(mean_shares(std::vector{none, none}), (std::vector<float>{0, 0}));
}

TEST(GroupTest, Trap16PendingsMayBeWaitedForTwiceNeverAndElsewhere) {
  as_groups(options_of(2), [](Group& group) {
    const std::vector<float> shares{1, 1};
    std::vector<float> bucket(100'000, 1);
    std::vector<float> other(100'000, 1);
    const Pending first = group.reduce_scatter(bucket, shares);
    { const Pending unwaited = group.reduce_scatter(other, shares); }
    Status elsewhere;
    std::thread([&] { elsewhere = first.wait(); }).join();
    EXPECT_TRUE(elsewhere);
    EXPECT_TRUE(first.wait());
    EXPECT_TRUE(first.done());
    EXPECT_TRUE(Pending().wait());
    ASSERT_TRUE(group.barrier());
    EXPECT_EQ(other[group.own_slice(400'000).begin / 4], 2);
  });
}

TEST(GroupTest, Trap24RanksThatShareOneCoreMakeProgress) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (std::size_t cpu = 0; CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  }
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  as_groups(options_of(4, ways()[1]), [](Group& group) {
    for (std::uint64_t step = 1; step <= 500; ++step) {
      std::vector<float> carried{1};
      ASSERT_TRUE(group.begin_step({.step = step, .samples = 1}, carried, &sum_shares));
      ASSERT_EQ(carried.front(), 4);
    }
  });
  EXPECT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(GroupTest, Trap26RanksKnowWhoSharesTheirMachine) {
  auto options = options_of(3);
  options[0].host = options[2].host = 7;
  options[1].host = 9;
  as_groups(std::move(options), [](Group& group) {
    EXPECT_TRUE(std::ranges::equal(group.hosts(), std::vector<std::uint64_t>{7, 9, 7}));
  });
}

TEST(GroupTest, APendingThatOutlivesItsGroupEndsWithAnError) {
  as_ranks(options_of(2), [](GroupOptions options) {
    Pending pending;
    std::vector<float> bucket(100'000);
    {
      auto group = Group::join(std::move(options), soon());
      ASSERT_TRUE(group);
      if ((*group)->rank() == 0) pending = (*group)->all_gather(bucket);
    }
    if (!pending.done()) {
      EXPECT_FALSE(pending.wait());
    }
  });
}

TEST(GroupTest, Trap10OneRankNeedsNoSocketAndChangesNothing) {
  GroupOptions alone{.keys = keys_of(1), .members = {{"here", {"no address", 0}}}};
  const auto group = Group::join(std::move(alone), soon());
  ASSERT_TRUE(group) << group.error().message;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> bucket{-0.0F, nan, 1e-45F};
  const auto before = bucket;
  const auto infos = (*group)->begin_step({.step = 1, .samples = 3}, bucket);
  ASSERT_TRUE(infos);
  ASSERT_TRUE((*group)->reduce_scatter(bucket, mean_shares(*infos)).wait());
  ASSERT_TRUE((*group)->all_gather(bucket).wait());
  EXPECT_TRUE(same_bits(bucket, before));
  EXPECT_TRUE((*group)->leave(soon()));
}

}  // namespace
}  // namespace paddle::collective
