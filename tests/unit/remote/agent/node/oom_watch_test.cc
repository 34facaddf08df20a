#include "remote/agent/node/oom_watch.h"

#include <unistd.h>

#include <gtest/gtest.h>

namespace paddle::agent {
namespace {

constexpr const char* kMountsV1 =
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:10 master:3 - cgroup cgroup rw,memory\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
constexpr const char* kMountsV2 =
    "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

std::string place(const std::string& groups, const std::string& mounts) {
  const auto group = memory_group_in(groups, mounts);
  return group ? group->mount + " " + group->path + " " + group->counter : "none";
}

TEST(OomWatch, TheCounterIsReadFromEveryKindOfFile) {
  EXPECT_EQ(oom_kills_in("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), 3U);
  EXPECT_EQ(oom_kills_in("low 0\nhigh 0\nmax 12\noom 2\noom_kill 1\noom_group_kill 5\n"), 1U);
  EXPECT_EQ(oom_kills_in("nr_free_pages 7\noom_kill 18446744073709551615\nswap_ra 2"),
            18446744073709551615U);
}

TEST(OomWatch, AFileWithoutTheCounterCountsNothing) {
  for (const char* const text :
       {"", "\n", "oom_kill_disable 0\nunder_oom 0\n", "oom_kill\n", "oom_kill many\n"}) {
    EXPECT_EQ(oom_kills_in(text), std::nullopt) << text;
  }
}

TEST(OomWatch, TheGroupIsThatOfTheMemoryController) {
  EXPECT_EQ(place("4:memory:/jobs/a:b\n1:cpu,cpuacct:/other\n0::/unified\n", kMountsV1),
            "/sys/fs/cgroup/memory /jobs/a:b memory.oom_control");
  EXPECT_EQ(place("9:cpu,memory:/\n0::/x\n", kMountsV1),
            "/sys/fs/cgroup/memory  memory.oom_control");
  EXPECT_EQ(place("0::/user.slice/session.scope\n", kMountsV2),
            "/sys/fs/cgroup /user.slice/session.scope memory.events");
  EXPECT_EQ(place("1:cpu:/a\n0::/\n", kMountsV1), "/sys/fs/cgroup/unified  memory.events");
}

TEST(OomWatch, AContainerSeesItsPartOfAHierarchy) {
  const std::string mounts =
      "36 35 0:32 /docker/1f2e /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
  EXPECT_EQ(place("4:memory:/docker/1f2e/step\n", mounts),
            "/sys/fs/cgroup/memory /step memory.oom_control");
  EXPECT_EQ(place("4:memory:/docker/1f2e\n", mounts), "/sys/fs/cgroup/memory  memory.oom_control");
  EXPECT_EQ(place("4:memory:/docker/1f2e0\n", mounts), "none") << "another container";
  EXPECT_EQ(place("0::/../../outside\n", kMountsV2), "none") << "above a namespace's top";
}

TEST(OomWatch, WhatCannotBeReadNamesNoGroup) {
  EXPECT_EQ(place("", kMountsV1), "none");
  EXPECT_EQ(place("4:memory:/a\n", ""), "none");
  EXPECT_EQ(place("4:memory:/a\n", "35 31 0:32 /"), "none");
  EXPECT_EQ(place("memory\n:::\n4:memory:a\n", kMountsV1), "none");
  EXPECT_EQ(place("4:memory:/a\n", kMountsV2), "none") << "only the other hierarchy is mounted";
}

// Whatever memory groups there are here: nobody was killed for memory while this ran.
TEST(OomWatch, ALivingProcessAndOneThatIsGoneWereNotKilled) {
  const TimePoint now(std::chrono::steady_clock::now());
  OomWatch watch;
  EXPECT_FALSE(watch.has_counted(now)) << "it has not looked yet";
  watch.look(::getpid(), now);
  EXPECT_FALSE(watch.has_counted(now));
  watch.look(-1, now + std::chrono::seconds(2));
  EXPECT_FALSE(watch.has_counted(now + std::chrono::seconds(2)));
}

}  // namespace
}  // namespace paddle::agent
