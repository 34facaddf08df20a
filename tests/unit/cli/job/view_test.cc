#include "cli/job/view.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace paddle::cli
