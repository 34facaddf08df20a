#include "cli/job/view.h"

#include <gtest/gtest.h>

#include "tests/support/fake_cluster.h"

namespace paddle::cli {
namespace {

ProcessView trainer(const std::string& name, std::optional<double> rate,
                    std::optional<double> busy_rate = {}) {
  ProcessView view;
  view.node = "n";
  view.status.name = name;
  view.status.state = remote::ProcessState::kRunning;
  view.usual_rate = rate;
  view.usual_busy_rate = busy_rate;
  return view;
}

TEST(SlowTrainers, AreThoseWellBelowTheMedianOfTheOthers) {
  EXPECT_TRUE(slow_trainers({trainer("trainer-0", 100), trainer("trainer-1", 75)}).empty());
  const auto slow = slow_trainers({trainer("trainer-0", 100), trainer("trainer-1", 60),
                                   trainer("trainer-2", 110), trainer("trainer-3", {})});
  ASSERT_EQ(slow.size(), 1U);
  EXPECT_EQ(slow[0].role, "trainer-1");
  EXPECT_EQ(slow[0].median, 105);
  EXPECT_EQ(describe(slow[0]),
            "trainer-1 on n is slow: 60 examples/s, 57 % of the others' median 105");
  EXPECT_TRUE(slow_trainers({trainer("trainer-0", 100)}).empty());
}

TEST(SlowTrainers, AmongThoseThatWaitForEachOtherTheBusyRateTells) {
  const auto slow = slow_trainers({trainer("trainer-0", 100, 1000), trainer("trainer-1", 100, 900),
                                   trainer("trainer-2", 100, 101)});
  ASSERT_EQ(slow.size(), 1U);
  EXPECT_EQ(describe(slow[0]),
            "trainer-2 on n is slow: 101 examples/s while not waiting, 11 % of "
            "the others' median 950");
}

TEST(SlowTrainers, AnEndedOneIsNotSlow) {
  std::vector<ProcessView> all{trainer("trainer-0", 100), trainer("trainer-1", 10)};
  all[1].status.state = remote::ProcessState::kExited;
  EXPECT_TRUE(slow_trainers(all).empty());
}

TEST(SlowTrainers, OneThatWaitsMostOfItsTimeDelaysNobody) {
  EXPECT_TRUE(
      slow_trainers({trainer("trainer-0", 100, 1000), trainer("trainer-1", 100, 300)}).empty());
}

TEST(JobView, RatesAreThoseSinceTheLastLook) {
  FakeCluster fake(1);
  remote::ProcessStatus status;
  status.job = "j";
  status.name = "trainer-0";
  status.state = remote::ProcessState::kRunning;
  status.usage = remote::Usage{0, 1000, 5000, 7000, 0};
  fake.node(0).processes = {status};
  ClusterSession session = fake.session();
  JobView view("j");
  view.look(fake.context, session);
  EXPECT_FALSE(view.processes()[0].received_per_second) << "nothing to compare with";
  fake.node(0).usage.unix_ms += 2000;
  fake.node(0).processes[0].usage = remote::Usage{0, 4000, 9000, 6000, 0};
  view.look(fake.context, session);
  EXPECT_EQ(view.processes()[0].received_per_second, 2000);
  EXPECT_FALSE(view.processes()[0].sent_per_second) << "a connection was closed";
  EXPECT_EQ(view.processes()[0].cores, 1.5);
  EXPECT_TRUE(view.any_running());
}

}  // namespace
}  // namespace paddle::cli
