// Ranks that wait for others: for how long, what they are told, and on which thread.
#include <csignal>

#include "tests/unit/engine/group/group_fixture.h"

namespace paddle::collective {
namespace {

using std::chrono::milliseconds;

std::ptrdiff_t slow_events(const Group& group) {
  return std::ranges::count(group.events(), EventKind::kSlow, &Event::kind);
}
bool has_failed(const Group& group) {
  return std::ranges::count(group.events(), EventKind::kFailed, &Event::kind) > 0;
}

TEST(GroupWaits, Trap03AStoppedRankIsWarnedOfAndGoesOnWithEqualSums) {
  auto options = options_of(2);
  for (GroupOptions& one : options) one.slow_after = milliseconds(200);
  GroupOptions first = std::move(options.front());
  options.erase(options.begin());
  const auto steps_of_two = [](Group& group, const std::function<void()>& at_step_50) {
    for (std::uint64_t step = 1; step <= 400; ++step) {
      if (step == 50) at_step_50();
      std::vector<float> carried{1};
      const auto infos = group.begin_step({.step = step, .samples = 1}, carried, &sum_shares);
      ASSERT_TRUE(infos) << infos.error().message;
      ASSERT_EQ(carried.front(), 2);
    }
  };
  OtherProcess other(std::move(first), [&](GroupOptions own) {
    auto group = Group::join(std::move(own), soon());
    if (!group) return;
    (*group)->set_activity("testing");
    steps_of_two(**group, [] {});
    (void)(*group)->leave(soon());
  });
  as_ranks(std::move(options), [&](GroupOptions own) {
    auto group = Group::join(std::move(own), soon());
    ASSERT_TRUE(group) << group.error().message;
    std::thread waker;
    // The other one cannot be more than a step ahead.
    steps_of_two(**group, [&] {
      other.signal(SIGSTOP);
      waker = std::thread([&] {
        // Until this rank has warned of it, which is in its events.
        while (slow_events(**group) == 0) std::this_thread::yield();
        other.signal(SIGCONT);
      });
    });
    EXPECT_TRUE((*group)->leave(soon()));
    waker.join();
  });
}

TEST(GroupWaits, ASilentRankIsGivenUpByName) {
  auto options = options_of(2);
  for (GroupOptions& one : options) {
    one.slow_after = milliseconds(100);
    one.gone_after = milliseconds(300);
  }
  std::atomic<bool> is_over = false;
  as_ranks(std::move(options), [&](GroupOptions own) {
    const std::uint32_t rank = own.rank;
    auto group = Group::join(std::move(own), soon());
    ASSERT_TRUE(group) << group.error().message;
    if (rank == 1) {
      while (!is_over) std::this_thread::yield();
      return;
    }
    const Status waited = (*group)->barrier();
    is_over = true;
    ASSERT_FALSE(waited);
    EXPECT_EQ(waited.error().code, Errc::kUnreachable);
    EXPECT_NE(waited.error().message.find("for rank 1 (node-1)"), std::string::npos);
  });
}

TEST(GroupWaits, Trap21ARankMayBeBusyForLongerThanGoneAfter) {
  auto options = options_of(3);
  for (GroupOptions& one : options) {
    one.slow_after = milliseconds(50);
    one.gone_after = milliseconds(1000);
  }
  std::atomic<bool> is_waited_for = false;
  as_groups(std::move(options), [&](Group& group) {
    if (group.rank() == 0) group.set_activity("testing");
    ASSERT_TRUE(group.barrier());  // from here on the others know what it does
    if (group.rank() == 0) {
      group.serve_in_background();
      while (!is_waited_for) std::this_thread::yield();
      group.set_activity("");
    }
    std::thread watcher;
    if (group.rank() == 1) {
      // Every warning comes after twice the time: the sixth after 1.6 s.
      watcher = std::thread([&] {
        while (slow_events(group) < 6 && !has_failed(group)) std::this_thread::yield();
        is_waited_for = true;
      });
    }
    const Status waited = group.barrier();
    EXPECT_TRUE(waited) << waited.error().message;
    if (watcher.joinable()) watcher.join();
  });
}

TEST(GroupWaits, WhoWaitsTellsForWhom) {
  auto options = options_of(3);
  std::atomic<bool> is_waited_for = false;
  options[1].on_waiting = [&](std::span<const std::uint32_t> ranks, Duration waited) {
    EXPECT_GE(waited, std::chrono::seconds(1));
    ASSERT_EQ(ranks.size(), 1U);
    EXPECT_EQ(ranks[0], 0U);
    is_waited_for = true;
  };
  as_groups(std::move(options), [&](Group& group) {
    if (group.rank() == 0) {
      group.serve_in_background();
      while (!is_waited_for) std::this_thread::yield();
    }
    EXPECT_TRUE(group.barrier());
  });
}

TEST(GroupWaits, ARankThatStopsWhileItIsBusyIsGivenUpByName) {
  auto options = options_of(2);
  for (GroupOptions& one : options) {
    one.slow_after = milliseconds(100);
    one.gone_after = milliseconds(500);
  }
  GroupOptions first = std::move(options.front());
  options.erase(options.begin());
  const OtherProcess other(std::move(first), [](GroupOptions own) {
    auto group = Group::join(std::move(own), soon());
    if (!group) return;
    (*group)->set_activity("saving");
    (void)(*group)->barrier();
    ::raise(SIGSTOP);
  });
  auto group = Group::join(std::move(options.front()), soon());
  ASSERT_TRUE(group) << group.error().message;
  ASSERT_TRUE((*group)->barrier());
  const Status waited = (*group)->barrier();
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code, Errc::kUnreachable);
  EXPECT_NE(waited.error().message.find("for rank 0 (node-0)"), std::string::npos);
  EXPECT_NE(waited.error().message.find("saving"), std::string::npos) << waited.error().message;
}

TEST(GroupWaits, JoinNamesARankThatConnectsAndSaysNothing) {
  auto options = options_of(2);
  GroupOptions mute = std::move(options[1]);
  std::atomic<bool> is_over = false;
  std::thread other([&] {
    const net::peer::MeshOptions mesh{
        .self = {.keys = mute.keys,
                 .id = {Role::kTrainer, 1},
                 .incarnation = mute.incarnation,
                 .job_tag = mute.job_tag},
        .listener = std::move(mute.listener),
        .endpoints = {mute.members[0].endpoint, mute.members[1].endpoint},
        .names = {"rank 0", "rank 1"}};
    const auto connections = net::peer::connect_ranks(mesh, soon());
    EXPECT_TRUE(connections);
    while (!is_over) std::this_thread::yield();
  });
  const auto group = Group::join(std::move(options[0]), in(milliseconds(500)));
  is_over = true;
  other.join();
  ASSERT_FALSE(group);
  EXPECT_EQ(group.error().code, Errc::kUnreachable);
  EXPECT_NE(group.error().message.find("rank 1 (node-1)"), std::string::npos)
      << group.error().message;
}

// One operation is done, and the other never: the waits for them share the group.
TEST(GroupWaits, Trap16TwoThreadsWaitForTwoOperations) {
  auto options = options_of(2);
  for (GroupOptions& one : options) one.slow_after = milliseconds(50);
  std::atomic<bool> both_wait = false;
  std::atomic<bool> is_over = false;
  as_ranks(std::move(options), [&](GroupOptions own) {
    auto group = Group::join(std::move(own), soon());
    ASSERT_TRUE(group) << group.error().message;
    std::vector<float> first(20'000);
    std::vector<float> second(20'000);
    if ((*group)->rank() == 1) {
      while (!both_wait) std::this_thread::yield();
      const Pending posted = (*group)->all_gather(first);
      EXPECT_TRUE(posted.wait());
      while (!is_over) std::this_thread::yield();
      return;
    }
    const Pending one = (*group)->all_gather(first);
    const Pending other = (*group)->all_gather(second);
    Status done = Error{Errc::kFailed, "not waited for"};
    Status never;
    std::thread a([&] { done = one.wait(); });
    while (slow_events(**group) < 1) std::this_thread::yield();
    std::thread b([&] { never = other.wait(); });
    while (slow_events(**group) < 3) std::this_thread::yield();
    both_wait = true;
    a.join();
    EXPECT_TRUE(done) << done.error().message;
    group->reset();  // though a thread still waits
    is_over = true;
    b.join();
    EXPECT_FALSE(never);
  });
}

// The last rank stops. Rank 0 waits for rank 2 between hosts, which waits for the last one on its
// own, and rank 0 would be the first to give up.
TEST(GroupWaits, InTwoLevelsARankThatStopsIsNamedByThoseThatDoNotWaitForItThemselves) {
  auto options = options_of(4);
  std::vector<std::uint32_t> told;
  for (GroupOptions& one : options) {
    one.host = 1 + one.rank / 2;
    one.sums_on_hosts = true;
    one.slow_after = milliseconds(1500);
    one.gone_after = milliseconds(one.rank == 0 ? 2000 : 2500);
  }
  options[0].on_waiting = [&](std::span<const std::uint32_t> ranks, Duration) {
    told.assign(ranks.begin(), ranks.end());
  };
  GroupOptions last = std::move(options.back());
  options.pop_back();
  const OtherProcess other(std::move(last), [](GroupOptions own) {
    auto group = Group::join(std::move(own), soon());
    if (group) ::raise(SIGSTOP);
  });
  as_ranks(std::move(options), [](GroupOptions own) {
    auto group = Group::join(std::move(own), soon());
    ASSERT_TRUE(group) << group.error().message;
    std::vector<float> bucket(20'000);
    const std::vector<float> shares(4, 1);
    const Status reduced = (*group)->reduce_scatter(bucket, shares).wait();
    ASSERT_FALSE(reduced);
    EXPECT_EQ(reduced.error().code, Errc::kUnreachable);
    EXPECT_NE(reduced.error().message.find(" for rank 3 (node-3)"), std::string::npos)
        << reduced.error().message;
  });
  EXPECT_EQ(told, std::vector<std::uint32_t>{3});
}

}  // namespace
}  // namespace paddle::collective
