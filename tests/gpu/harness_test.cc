// The harness of these tests itself, on the card of host memory: only such a card can be broken.
#include <filesystem>

#include <gtest/gtest.h>

#include "tests/gpu/card_memory.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace paddle::test {
namespace {

using device::expect;

int* volatile g_numbers = nullptr;  // NOLINT: read where the compiler cannot know it
volatile int g_read = 0;            // NOLINT

// While it lives, blocks are allocations of their own.
struct OwnBlocks {
  OwnBlocks() { set_shared_source(shared_source(), true); }
  ~OwnBlocks() { set_shared_source(shared_source(), false); }
  OwnBlocks(const OwnBlocks&) = delete;
  OwnBlocks& operator=(const OwnBlocks&) = delete;
};

TEST(HarnessDeathTest, AVectorOfItsOwnEndsWhereItsMemoryEnds) {
  testing::FLAGS_gtest_death_test_style = "fast";
  // Apart from the tests of kernels, or the child could not read the vector at all.
  const auto past_the_end = [] {
    const OwnBlocks own;
    share_memory(true);
    const std::vector<int> numbers(100, 7);
    share_memory(false);
    g_numbers = const_cast<int*>(numbers.data());
    if (g_numbers[99] != 7) std::_Exit(0);
    std::fprintf(stderr, "read all\n");
    g_read = g_numbers[100];
    std::_Exit(0);
  };
  EXPECT_DEATH(past_the_end(), "read all");
}

TEST(Harness, OnlyTestsOfKernelsShareTheirMemory) {
  const std::vector<int> numbers(100);
  EXPECT_FALSE(is_shared(numbers.data()));
}

TEST(DeviceHarness, TestsOfKernelsShareTheirMemory) {
  const std::vector<int> numbers(100);
  EXPECT_TRUE(is_shared(numbers.data()));
  const OwnBlocks own;
  const std::vector<int> others(100);
  EXPECT_TRUE(is_shared(others.data()));
  EXPECT_FALSE(is_shared(others.data() + 102));
}

TEST(Harness, ARefusedCallFailsItsTestAlone) {
  EXPECT_THROW(expect(Status(Error{Errc::kFailed, "refused"})), std::runtime_error);
  EXPECT_THROW(expect(Result<int>(Error{Errc::kFailed, "refused"})), std::runtime_error);
}

TEST(Harness, TheNextTestHasACardThatWorks) {
  auto& broken = dynamic_cast<FakeDevice&>(card());
  {
    const device::Stream stream = expect(device::Stream::open(card()));
    const auto memory = device::memory_of<float, device::Place::kCard>(card(), 3);
    broken.fail_order(1);
    card().launch(stream.handle(), device::fill(memory, 1));
    EXPECT_FALSE(device::finish(card(), stream));
  }
  expect(open_card());
  EXPECT_NE(&card(), &broken);
  const auto* const opened = &card();
  const device::Stream stream = expect(device::Stream::open(card()));
  const auto memory = device::on_card<float>(card(), stream, {1, 2});
  EXPECT_EQ(device::read(card(), stream, memory), (std::vector<float>{1, 2}));
  expect(open_card());
  EXPECT_EQ(&card(), opened) << "it works";
}

// A failed test leaves objects of its own in shared memory, which is gone at the process's end.
TEST(DeviceHarness, DISABLED_Fails) {
  FAIL() << "a sentence that is too long for the object that has it";
}

TEST(Harness, AFailedTestEndsInAFailureAndNotInACrash) {
  const TemporaryFolder folder;
  Process failed({std::filesystem::read_symlink("/proc/self/exe"),
                  "--gtest_filter=DeviceHarness.DISABLED_Fails", "--gtest_also_run_disabled_tests"},
                 folder / "output");
  EXPECT_EQ(failed.wait(), 1) << failed.output();
  EXPECT_NE(failed.output().find("too long for the object"), std::string::npos) << failed.output();
}

TEST(Harness, ACardIsHeldUntilASignal) {
  const TemporaryFolder folder;
  Process holds({std::filesystem::read_symlink("/proc/self/exe"), "--hold"}, folder / "output");
  EXPECT_TRUE(holds.prints("card 0 is Fake")) << holds.output();
  holds.signal(SIGTERM);
  EXPECT_EQ(holds.wait(), 128 + SIGTERM);
}

}  // namespace
}  // namespace paddle::test
