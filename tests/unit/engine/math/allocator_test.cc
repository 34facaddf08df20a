#include "engine/math/allocator.h"

#include <fstream>
#include <new>

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace paddle {
namespace {

class MemoryTest : public testing::Test {
 protected:
  void limit(const std::string& group, const std::string& text) const {
    std::filesystem::create_directories(path_ + group);
    std::ofstream(path_ + group + "/memory.max") << text << "\n";
  }

  test::TemporaryFolder folder_;
  const std::string& path_ = folder_.path();
};

TEST_F(MemoryTest, AGroupIsBoundByItsAncestorsToo) {
  EXPECT_EQ(group_memory_bytes(path_, "0::/\n"), UINT64_MAX);
  limit("/job", "1000000");
  limit("/job/step", "max");
  limit("/job/step/task", "5000000");
  EXPECT_EQ(group_memory_bytes(path_, "0::/job/step/task\n"), 1'000'000U);
  EXPECT_EQ(group_memory_bytes(path_, "0::/job/step\n"), 1'000'000U);
  EXPECT_EQ(group_memory_bytes(path_, "0::/other\n"), UINT64_MAX);
  limit("", "70000");
  EXPECT_EQ(group_memory_bytes(path_, "0::/job/step/task\n"), 70'000U);
  EXPECT_EQ(group_memory_bytes(path_, "0::\n"), 70'000U);
}

TEST_F(MemoryTest, GroupsOfVersionOneAreReadToo) {
  std::filesystem::create_directories(path_ + "/memory/docker/job");
  std::ofstream(path_ + "/memory/docker/memory.limit_in_bytes") << "3000000\n";
  std::ofstream(path_ + "/memory/docker/job/memory.limit_in_bytes") << "9223372036854771712\n";
  limit("/unified", "4000000");
  const std::string groups = "5:cpu,cpuacct:/x\n4:memory:/docker/job\n1:name=systemd:/y\n";
  EXPECT_EQ(group_memory_bytes(path_, groups), 3'000'000U);
  EXPECT_EQ(group_memory_bytes(path_, groups + "0::/unified\n"), 3'000'000U);
  EXPECT_EQ(group_memory_bytes(path_, "4:hugetlb,memory:/docker"), 3'000'000U);
  EXPECT_EQ(group_memory_bytes(path_, "4:memoryless:/docker\nnonsense\n\n:"), UINT64_MAX);
}

TEST_F(MemoryTest, AProcessWithoutMemoryEndsWithOneClearLine) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers have an allocator of their own";
#endif
  EXPECT_EXIT(
      {
        end_when_out_of_memory("pserver-3", "use more pservers");
        [[maybe_unused]] void* volatile none = ::operator new (std::size_t{1} << 62U);
      },
      testing::ExitedWithCode(7),
      "^paddle: pserver-3 is out of memory\nhint: use more pservers\n$");
}

TEST_F(MemoryTest, ParametersMayTakeMostOfWhatThereIs) {
  EXPECT_GT(usable_memory_bytes(), 1U << 20U);
  EXPECT_LT(usable_memory_bytes(), 1ULL << 50U);
  EXPECT_LT(parameter_memory_bytes(), usable_memory_bytes());
}

}  // namespace
}  // namespace paddle
