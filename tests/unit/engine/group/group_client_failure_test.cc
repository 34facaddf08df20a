// Trainers of a group of which one fails, dawdles, or has other flags.
#include "tests/unit/engine/group/group_client_fixture.h"

namespace paddle::strategy {
namespace {

using std::chrono::milliseconds;

// Trap 4: the others do not know whether it has saved.
TEST(GroupClientFailure, ATrainerThatIsLostBeforeAllMeetAtTheEndFailsTheOthers) {
  const auto set = set_of("sgd", kSmall, 3);
  std::atomic<int> begun = 0;
  collective::as_ranks(collective::options_of(3), [&](collective::GroupOptions options) {
    const std::uint32_t rank = options.rank;
    auto group = collective::Group::join(std::move(options), collective::soon());
    ASSERT_TRUE(group) << group.error().message;
    auto client = GroupClient::create(set, *std::move(group), {}, {});
    ASSERT_TRUE(client);
    const Status ready = (*client)->ready();
    ++begun;
    ASSERT_TRUE(ready) << ready.error().message;
    if (rank == 0) {
      while (begun < 3) std::this_thread::yield();
      return client->reset();  // while it saves
    }
    const Status left = (*client)->leave();
    ASSERT_FALSE(left);
    EXPECT_NE(left.error().message.find("rank 0 (node-0)"), std::string::npos)
        << left.error().message;
  });
}

// Trap 5: flags that are not in the ParameterSet.
TEST(GroupClientFailure, UnlikeFlagsAreFoundInTheFirstStep) {
  for (const bool is_period : {false, true}) {
    std::vector<GroupClient::Flags> flags(2, {.passes = 2, .saving_period = 1});
    ++(is_period ? flags[1].saving_period : flags[1].passes);
    const auto check = [](Rank& rank) {
      const Status pushed = rank.push();
      ASSERT_FALSE(pushed);
      EXPECT_EQ(pushed.error().code, Errc::kUsage) << pushed.error().message;
      EXPECT_NE(pushed.error().hint.find("flags"), std::string::npos) << pushed.error().hint;
    };
    as_trainers(set_of("sgd", kSmall, 2), collective::options_of(2), check, "", flags);
  }
}

// Trap 21: what it fetches for the snapshot is only the begin of the work.
TEST(GroupClientFailure, ARankSavesUntilItTakesItsNextStep) {
  const auto set = set_of("sgd", kSmall, 2);
  const test::TemporaryFolder folder;
  auto options = collective::options_of(2);
  for (auto& one : options) one.slow_after = milliseconds(50);
  std::atomic<bool> has_saved = false;
  std::atomic<bool> is_warned_of = false;
  testing::internal::CaptureStderr();
  collective::as_ranks(std::move(options), [&](collective::GroupOptions own) {
    auto group = collective::Group::join(std::move(own), collective::soon());
    ASSERT_TRUE(group) << group.error().message;
    const collective::Group& watched = **group;
    const auto client = GroupClient::create(set, *std::move(group), {}, {});
    ASSERT_TRUE(client);
    client::ParameterClient& face = **client;
    ASSERT_TRUE(face.ready());
    std::thread watcher;
    if (watched.rank() == 0) {
      ASSERT_TRUE(face.announce_busy("saving"));
      EXPECT_TRUE(face.snapshots().save(folder / "saved"));
      has_saved = true;
      while (!is_warned_of) std::this_thread::yield();
    } else {
      const auto warnings = [&watched] {
        return std::ranges::count(watched.events(), collective::EventKind::kSlow,
                                  &collective::Event::kind);
      };
      watcher = std::thread([&, warnings] {
        while (!has_saved) std::this_thread::yield();
        const auto before = warnings();
        while (warnings() < before + 3) std::this_thread::yield();
        is_warned_of = true;
      });
    }
    EXPECT_TRUE(face.leave());
    if (watcher.joinable()) watcher.join();
  });
  const std::string log = testing::internal::GetCapturedStderr();
  const std::size_t last = log.rfind(" s for rank 0 (node-0)");
  ASSERT_NE(last, std::string::npos) << log;
  EXPECT_NE(log.find(", saving]", last), std::string::npos) << log;
}

}  // namespace
}  // namespace paddle::strategy
