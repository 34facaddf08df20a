// The log of a rank whose group has failed.
#include <regex>

#include "tests/support/temporary_folder.h"
#include "tests/unit/engine/group/group_fixture.h"

namespace paddle::collective {
namespace {

// Three ranks take 1,000 steps, and then rank 2 ends the group in its way. The log of all.
std::string log_of(const std::function<void(std::unique_ptr<Group>& group)>& end,
                   const std::string& events_file) {
  testing::internal::CaptureStderr();
  std::atomic<int> waiting = 0;
  auto options = options_of(3);
  options[0].events_file = events_file;
  as_ranks(std::move(options), [&](GroupOptions own) {
    auto group = Group::join(std::move(own), soon());
    ASSERT_TRUE(group) << group.error().message;
    for (std::uint64_t step = 1; step <= 1000; ++step) {
      std::vector<float> carried{1};
      ASSERT_TRUE((*group)->begin_step({.step = step, .samples = 1}, carried));
    }
    if ((*group)->rank() == 2) {
      while (waiting < 2) std::this_thread::yield();
      return end(*group);
    }
    std::vector<std::byte> data(1U << 20U);
    const Pending pending = (*group)->broadcast(2, data);
    ++waiting;
    EXPECT_FALSE(pending.wait());
  });
  return testing::internal::GetCapturedStderr();
}

std::ptrdiff_t count(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  return std::distance(std::sregex_iterator(text.begin(), text.end(), regex), {});
}

TEST(GroupReport, AnAbortIsTwoLinesOfEachRank) {
  const std::string log = log_of(
      [](std::unique_ptr<Group>& group) {
        group->abort(Error{Errc::kData, "enough"});
        EXPECT_FALSE(group->barrier());
      },
      "");
  EXPECT_EQ(count(log, "\\] "), 6) << log;
  EXPECT_EQ(count(log, "the group has ended: rank 2 \\(node-2\\): enough"), 3) << log;
  EXPECT_EQ(count(log,
                  "operation 1002, a broadcast of 1048576 bytes at 0; rank 2 \\(node-2\\): "
                  "sent 0 of 0, received 0 of 4, last frame received"),
            2)
      << log;
}

TEST(GroupReport, ALostRankIsAFewLinesMoreAndTheLastEventsAreInAFile) {
  const test::TemporaryFolder folder;
  const std::string log =
      log_of([](std::unique_ptr<Group>& group) { group.reset(); }, folder / "events");
  EXPECT_LE(count(log, "\\] "), 3 * 8) << log;
  const std::string events = test::TemporaryFolder::read(folder / "events");
  EXPECT_GT(count(events, "sent [0-9]+@[0-9]+ to [12]"), 1000);
  EXPECT_EQ(count(events, "failed in"), 1);
}

}  // namespace
}  // namespace paddle::collective
