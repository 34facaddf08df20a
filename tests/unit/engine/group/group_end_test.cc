// The end of a group: memory is its caller's again, and nobody computes in vain.
#include <sys/mman.h>

#include <csignal>
#include <cstring>
#include <ctime>

#include "tests/unit/engine/group/group_fixture.h"

namespace paddle::collective {
namespace {

// A bucket that a test can make unreadable.
class Mapping {
 public:
  static constexpr std::size_t kBytes = 8U << 20U;
  Mapping()
      : begin_(
            ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    EXPECT_NE(begin_, MAP_FAILED);
  }
  ~Mapping() { ::munmap(begin_, kBytes); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  std::span<std::byte> bytes() { return {static_cast<std::byte*>(begin_), kBytes}; }
  void mark() { std::memset(begin_, 0x5a, kBytes); }
  bool is_marked() const {
    const auto* const first = static_cast<const std::byte*>(begin_);
    return *first == std::byte{0x5a} && std::memcmp(first, first + 1, kBytes - 1) == 0;
  }
  void forbid() { EXPECT_EQ(::mprotect(begin_, kBytes, PROT_NONE), 0); }

 private:
  void* begin_;
};

double thread_seconds() {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

class GroupEnd : public ::testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(Ways, GroupEnd, ::testing::ValuesIn(ways()),
                         [](const auto& way) { return std::string(way.param.name); });
INSTANTIATE_TEST_SUITE_P(Lanes, GroupEnd, ::testing::ValuesIn(ways_of_lanes()),
                         [](const auto& way) { return std::string(way.param.name); });

// A kernel that reads into forbidden memory only fails, so every second run looks for bytes that
// are written after the wait.
TEST_P(GroupEnd, Trap15MemoryIsTheCallersAgainOnceAWaitHasFailed) {
  for (int run = 0; run < 20; ++run) {
    auto options = options_of(3, GetParam());
    GroupOptions first = std::move(options.front());
    options.erase(options.begin());
    OtherProcess victim(std::move(first), [](GroupOptions own) {
      auto group = Group::join(std::move(own), soon());
      Mapping bucket;
      while (group && (*group)->all_gather_bytes(bucket.bytes()).wait()) continue;
    });
    std::atomic<int> gathered = 0;
    std::thread killer([&] {
      while (gathered < 4) std::this_thread::yield();
      victim.signal(SIGKILL);
    });
    as_ranks(std::move(options), [&](GroupOptions own) {
      Mapping bucket;
      auto group = Group::join(std::move(own), soon());
      ASSERT_TRUE(group) << group.error().message;
      while ((*group)->all_gather_bytes(bucket.bytes()).wait()) ++gathered;
      const bool forbids = run % 2 == 1;
      if (forbids) bucket.forbid();
      if (!forbids) bucket.mark();
      group->reset();
      EXPECT_TRUE(forbids || bucket.is_marked());
    });
    killer.join();
  }
}

TEST_P(GroupEnd, WaitsForAPeerThatDoesNothingWithoutComputing) {
  for (const bool leaves : {false, true}) {
    auto options = options_of(2, GetParam());
    GroupOptions first = std::move(options.front());
    options.erase(options.begin());
    const OtherProcess other(std::move(first), [&](GroupOptions own) {
      auto group = Group::join(std::move(own), soon());
      if (!group) return;
      Mapping bucket;
      const Pending pending = (*group)->all_gather_bytes(bucket.bytes());
      if (leaves) (void)pending.wait();
      if (leaves) (void)(*group)->leave(soon());
      ::raise(SIGSTOP);
    });
    auto group = Group::join(std::move(options.front()), soon());
    ASSERT_TRUE(group) << group.error().message;
    Mapping bucket;
    const Pending pending = (*group)->all_gather_bytes(bucket.bytes());
    if (leaves) {
      ASSERT_TRUE(pending.wait());
      ASSERT_TRUE((*group)->leave(soon()));
    }
    const double before = thread_seconds();
    group->reset();
    EXPECT_LT(thread_seconds() - before, 0.1);
  }
}

}  // namespace
}  // namespace paddle::collective
