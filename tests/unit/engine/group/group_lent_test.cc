// Groups whose ranks share a host and read each other's buckets in place.
#include <sys/resource.h>

#include <latch>

#include "engine/net/lent_array.h"
#include "tests/unit/engine/group/group_fixture.h"

namespace paddle::collective {
namespace {

const Way& memory() {
  return ways()[1];
}

// Whole numbers, whose sums are exact.
float value_of(std::uint32_t rank, std::size_t at, std::uint64_t step) {
  return static_cast<float>((at * 31 + rank * 7 + step) % 1000);
}
void fill(std::span<float> bucket, std::uint32_t rank, std::uint64_t step) {
  for (std::size_t i = 0; i < bucket.size(); ++i) bucket[i] = value_of(rank, i, step);
}
bool is_sum(std::span<const float> bucket, std::uint32_t size, std::uint64_t step) {
  for (std::size_t i = 0; i < bucket.size(); ++i) {
    float sum = 0;
    for (std::uint32_t rank = 0; rank < size; ++rank) sum += value_of(rank, i, step);
    if (bucket[i] != sum) return false;
  }
  return true;
}

TEST(GroupLentTest, SumsAreRightAndReadInPlace) {
  for (const std::uint32_t size : {2U, 3U, 5U}) {
    const std::vector<float> shares(size, 1.0F);
    as_groups(options_of(size, memory()), [&](Group& group) {
      constexpr std::size_t kMost = 1'000'000;
      const BucketMemory lent = group.allocate(kMost);
      std::uint64_t step = 0;
      for (const std::size_t count :
           {kMost, std::size_t{1}, whole_bytes_max(size) / 4 + 1, std::size_t{400'003}, kMost}) {
        const auto bucket = lent.floats().first(count);
        fill(bucket, group.rank(), ++step);
        ASSERT_TRUE(group.reduce_scatter(bucket, shares).wait());
        ASSERT_TRUE(group.all_gather(bucket).wait());
        ASSERT_TRUE(is_sum(bucket, size, step)) << count << " of " << size;
        // Nobody reads it any more.
        std::ranges::fill(bucket, 77.0F);
      }
      EXPECT_GE(arrays_of_others(), 1U);
      ASSERT_TRUE(group.barrier());
    });
  }
}

TEST(GroupLentTest, BucketsUnderWayMayBeLentOrNot) {
  constexpr std::uint32_t kSize = 3;
  constexpr std::size_t kCount = 300'000;
  const std::vector<float> shares(kSize, 1.0F);
  as_groups(options_of(kSize, memory()), [&](Group& group) {
    const BucketMemory lent = group.allocate(6 * kCount);
    std::vector<std::vector<float>> own(6);
    std::vector<std::span<float>> buckets;
    std::vector<Pending> pending;
    for (std::size_t i = 0; i < 12; ++i) {
      if (i % 2 == 0) {
        buckets.push_back(lent.floats().subspan(i / 2 * kCount, kCount));
      } else {
        own[i / 2].resize(i % 3 == 0 ? kCount : 100);
        buckets.emplace_back(own[i / 2]);
      }
      fill(buckets[i], group.rank(), i);
      pending.push_back(group.reduce_scatter(buckets[i], shares));
    }
    gather_all(group, buckets, pending);
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      EXPECT_TRUE(is_sum(buckets[i], kSize, i));
    }
  });
}

TEST(GroupLentTest, OnlyRanksOfThisHostReadInPlace) {
  as_groups(options_of(2, ways()[0]), [&](Group& group) {
    const std::size_t before = arrays_of_others();
    const BucketMemory memory = group.allocate(500'000);
    std::ranges::fill(memory.floats(), 2.0F);
    ASSERT_TRUE(group.reduce_scatter(memory.floats(), std::vector<float>{1, 1}).wait());
    ASSERT_TRUE(group.all_gather(memory.floats()).wait());
    EXPECT_TRUE(std::ranges::all_of(memory.floats(), [](float value) { return value == 4; }));
    EXPECT_EQ(arrays_of_others(), before);
  });
}

// A caller that has seen the group fail writes to its buckets, which others may just be reading.
TEST(GroupLentTest, AnAbortInTheMiddleOfABucketMakesNoWrongSum) {
  constexpr std::size_t kCount = 1'000'000;
  const std::vector<float> shares{1, 1, 1};
  std::atomic<int> sums = 0;
  for (std::uint64_t round = 0; round < 15; ++round) {
    as_ranks(options_of(3, memory()), [&](GroupOptions options) {
      auto group = Group::join(std::move(options), soon());
      if (!group) {  // the abort came while this rank still joined
        EXPECT_EQ(group.error().code, Errc::kInterrupted) << group.error().message;
        return;
      }
      const BucketMemory lent = (*group)->allocate(kCount);
      const auto bucket = lent.floats();
      Rng rng(hash_combine(round, (*group)->rank()));
      std::atomic<std::uint64_t> own_sums = 0;
      std::thread aborter;
      if ((*group)->rank() == round % 3) {
        aborter =
            std::thread([&group = *group, &own_sums, after = round % 4, pause = rng.below(2000)] {
              while (own_sums < after) std::this_thread::yield();
              std::this_thread::sleep_for(std::chrono::microseconds(pause));
              group->abort({Errc::kInterrupted, "enough"});
            });
      }
      for (Status done; done;) {
        std::ranges::fill(bucket, 1.0F);
        done = (*group)->reduce_scatter(bucket, shares).wait();
        const Range own = (*group)->own_slice(kCount * sizeof(float));
        if (done) {
          const auto slice = bucket.subspan(own.begin / 4, own.size() / 4);
          ASSERT_TRUE(std::ranges::all_of(slice, [](float value) { return value == 3; }));
          ++sums;
          ++own_sums;
          done = (*group)->all_gather(bucket).wait();
        }
        if (done) {
          ASSERT_TRUE(std::ranges::all_of(bucket, [](float value) { return value == 3; }));
        } else {
          EXPECT_EQ(done.error().code, Errc::kInterrupted) << done.error().message;
          std::ranges::fill(bucket, 1e9F);
        }
      }
      if (aborter.joinable()) aborter.join();
    });
  }
  EXPECT_GT(sums, 0);
}

// All that it has lent before is dropped, and its reason is heard.
TEST(GroupLentTest, AnAbortBehindSegmentsThatNobodyHasReadIsTheCause) {
  std::atomic<bool> has_aborted = false;
  as_ranks(options_of(2, memory()), [&](GroupOptions options) {
    auto group = Group::join(std::move(options), soon());
    ASSERT_TRUE(group);
    const BucketMemory lent = (*group)->allocate(1'000'000);
    if ((*group)->rank() == 0) {
      const Pending pending = (*group)->reduce_scatter(lent.floats(), std::vector<float>{1, 1});
      (*group)->abort({Errc::kInterrupted, "enough"});
      EXPECT_FALSE(pending.wait());
      for (const Event& event : (*group)->events()) {  // of the sum, after the join
        EXPECT_FALSE(event.kind == EventKind::kSent && event.operation > 1) << "nobody has read it";
      }
      has_aborted = true;
      return;
    }
    while (!has_aborted) std::this_thread::yield();
    const Status done = (*group)->reduce_scatter(lent.floats(), std::vector<float>{1, 1}).wait();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Errc::kInterrupted) << done.error().message;
  });
}

TEST(GroupLentTest, ARankThatIsKilledBeforeItsArrayIsOpenedIsLost) {
  auto options = options_of(2, memory());
  int told[2] = {-1, -1};
  ASSERT_EQ(::pipe(told), 0);
  OtherProcess victim(std::move(options[0]), [&](GroupOptions own) {
    auto group = Group::join(std::move(own), soon());
    if (!group) return;
    const BucketMemory lent = (*group)->allocate(1'000'000);
    const Pending sum = (*group)->reduce_scatter(lent.floats(), std::vector<float>{1, 1});
    [[maybe_unused]] const ssize_t ignored = ::write(told[1], "x", 1);
    (void)sum.wait();
  });
  options.erase(options.begin());
  as_ranks(std::move(options), [&](GroupOptions own) {
    auto group = Group::join(std::move(own), soon());
    ASSERT_TRUE(group) << group.error().message;
    char one = 0;
    ASSERT_EQ(::read(told[0], &one, 1), 1);
    victim.signal(SIGKILL);
    const BucketMemory lent = (*group)->allocate(1'000'000);
    const Status done = (*group)->reduce_scatter(lent.floats(), std::vector<float>{1, 1}).wait();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Errc::kUnreachable) << done.error().message;
    EXPECT_TRUE(done.error().message.starts_with("lost rank 0 (node-0)")) << done.error().message;
  });
  ::close(told[0]);
  ::close(told[1]);
}

TEST(GroupLentTest, ARankWithoutDescriptorsNamesItself) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "UndefinedBehaviorSanitizer needs descriptors to check a virtual call";
#endif
  std::latch both_are_there(2);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  as_ranks(options_of(2, memory()), [&](GroupOptions options) {
    auto group = Group::join(std::move(options), soon());
    EXPECT_TRUE(group);
    const BucketMemory lent = (*group)->allocate(1'000'000);
    both_are_there.arrive_and_wait();
    const rlimit none_left{0, before.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none_left), 0);
    const Status done = (*group)->reduce_scatter(lent.floats(), std::vector<float>{1, 1}).wait();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Errc::kResource) << done.error().message;
    EXPECT_TRUE(done.error().message.starts_with("rank ")) << done.error().message;
  });
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(GroupLentTest, MoreArraysThanAPeerOpensAreCopied) {
  as_groups(options_of(2, memory()), [](Group& group) {
    std::vector<BucketMemory> all;
    for (std::size_t i = 0; i < net::peer::kArraysOfPeerMax + 3; ++i) {
      all.push_back(group.allocate(150'000));
      const auto bucket = all.back().floats();
      EXPECT_TRUE(std::ranges::all_of(bucket, [](float value) { return value == 0; }));
      std::ranges::fill(bucket, static_cast<float>(i));
      ASSERT_TRUE(group.reduce_scatter(bucket, std::vector<float>{1, 1}).wait());
      ASSERT_TRUE(group.all_gather(bucket).wait());
      EXPECT_TRUE(std::ranges::all_of(
          bucket, [&](float value) { return value == 2 * static_cast<float>(i); }));
    }
    ASSERT_TRUE(group.barrier());
  });
}

TEST(GroupLentTest, MemoryMayOutliveItsGroup) {
  as_ranks(options_of(2, memory()), [](GroupOptions options) {
    BucketMemory memory;
    {
      auto group = Group::join(std::move(options), soon());
      ASSERT_TRUE(group);
      memory = (*group)->allocate(200'000);
      ASSERT_TRUE((*group)->all_gather(memory.floats()).wait());
      ASSERT_TRUE((*group)->leave(soon()));
    }
    std::ranges::fill(memory.floats(), 1.0F);
    EXPECT_EQ(memory.floats().size(), 200'000U);
  });
}

}  // namespace
}  // namespace paddle::collective
