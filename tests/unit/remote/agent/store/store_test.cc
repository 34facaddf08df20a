// Pushes that end at the same time.
#include "remote/agent/store/store.h"

#include <sys/stat.h>

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace paddle::agent {
namespace {

constexpr int kTries = 20000;

// To write into an object takes the lock for oneself; who does not get it must not lose what it
// had, or another push's sweep takes away what arrived of this one.
TEST(Store, ASweepSparesWhatArrivedForAPushThatCannotTakeAnObject) {
  const test::TemporaryFolder folder;
  const Root root = *open_root(folder.make("root"));
  const auto ours = *Store::open(root);
  const ObjectKey key{{}, 0444};
  ASSERT_TRUE(ours->open_partial(key));
  const std::string partial = root.path + "/store/partial/" + key.name();
  std::atomic<bool> done = false;
  std::thread other([&] {
    while (!done) (*Store::open(root))->sweep();
  });
  struct stat info {};
  int tries = 0;
  for (; tries < kTries && ::stat(partial.c_str(), &info) == 0; ++tries)
    (void)ours->detach("none", *SafePath::parse("jobs/a/none"), key);
  done = true;
  other.join();
  EXPECT_EQ(tries, kTries);
}

}  // namespace
}  // namespace paddle::agent
