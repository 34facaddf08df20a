
#include <atomic>
#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include "cli/job/results.h"
#include "tests/support/fake_cluster.h"
#include "tests/support/temporary_folder.h"

namespace paddle::cli {
namespace {

TEST(OutputLock, IsHeldByOneAndLeavesNothing) {
  FakeCluster fake(1);
  const test::TemporaryFolder folder;
  std::atomic<bool> is_first_over = false;
  auto first = std::make_unique<Result<OutputLock>>(OutputLock::take(fake.context, folder.path()));
  ASSERT_TRUE(*first);
  EXPECT_TRUE((*first)->is_held());
  fake.context.pause = [&](Duration) {
    is_first_over = true;
    first.reset();
  };
  {
    const auto second = OutputLock::take(fake.context, folder.path());
    ASSERT_TRUE(second);
    EXPECT_TRUE(second->is_held());
    EXPECT_TRUE(is_first_over) << "the second did not wait";
  }
  EXPECT_NE(fake.err.str().find("another paddlectl (pid " + std::to_string(::getpid()) + ")"),
            std::string::npos)
      << fake.err.str();
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(OutputLock, CtrlCEndsTheWait) {
  FakeCluster fake(1);
  const test::TemporaryFolder folder;
  const auto first = OutputLock::take(fake.context, folder.path());
  fake.interrupted = true;
  const auto second = OutputLock::take(fake.context, folder.path());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::kInterrupted);
}

TEST(OutputLock, WhereNothingCanBeLockedNobodyWaits) {
  FakeCluster fake(1);
  const test::TemporaryFolder folder;
  const auto lock = OutputLock::take(fake.context, folder / "absent");
  ASSERT_TRUE(lock);
  EXPECT_FALSE(lock->is_held());
}

TEST(OutputLock, AFetchRemovesWhatAKilledOneLeft) {
  FakeCluster fake(1);
  ClusterSession session = fake.session();
  fake.node(0).files["jobs/j/output/pass-00000/MANIFEST"] = "manifest";
  const test::TemporaryFolder folder;
  const std::string part = folder.write("j/pass-00000/.paddlectl-7-0000abcd-1.part", "half");
  const std::string own = folder.write("j/pass-00000/.mine.part", "of the user");
  const auto stats = fetch_results(fake.context, session, "j", folder.path(), PassChoice{});
  ASSERT_TRUE(stats) << stats.error().message;
  EXPECT_FALSE(std::filesystem::exists(part));
  EXPECT_TRUE(std::filesystem::exists(own));
}

}  // namespace
}  // namespace paddle::cli
