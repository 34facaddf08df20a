#include "base/control_group.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace paddle {
namespace {

class ControlGroupTest : public testing::Test {
 protected:
  void write(const std::string& group, const std::string& file, const std::string& text) const {
    std::filesystem::create_directories(path_ + group);
    std::ofstream(path_ + group + "/" + file) << text << "\n";
  }

  test::TemporaryFolder folder_;
  const std::string& path_ = folder_.path();
};

TEST_F(ControlGroupTest, AGroupIsBoundByItsAncestorsToo) {
  EXPECT_EQ(group_memory_bytes(path_, "0::/\n"), UINT64_MAX);
  write("/job", "memory.max", "1000000");
  write("/job/step", "memory.max", "max");
  write("/job/step/task", "memory.max", "5000000");
  EXPECT_EQ(group_memory_bytes(path_, "0::/job/step/task\n"), 1'000'000U);
  EXPECT_EQ(group_memory_bytes(path_, "0::/job/step\n"), 1'000'000U);
  EXPECT_EQ(group_memory_bytes(path_, "0::/other\n"), UINT64_MAX);
  write("", "memory.max", "70000");
  EXPECT_EQ(group_memory_bytes(path_, "0::/job/step/task\n"), 70'000U);
  EXPECT_EQ(group_memory_bytes(path_, "0::\n"), 70'000U);
}

TEST_F(ControlGroupTest, GroupsOfVersionOneAreReadToo) {
  write("/memory/docker", "memory.limit_in_bytes", "3000000");
  write("/memory/docker/job", "memory.limit_in_bytes", "9223372036854771712");
  write("/unified", "memory.max", "4000000");
  const std::string groups = "5:cpu,cpuacct:/x\n4:memory:/docker/job\n1:name=systemd:/y\n";
  EXPECT_EQ(group_memory_bytes(path_, groups), 3'000'000U);
  EXPECT_EQ(group_memory_bytes(path_, groups + "0::/unified\n"), 3'000'000U);
  EXPECT_EQ(group_memory_bytes(path_, "4:hugetlb,memory:/docker"), 3'000'000U);
  EXPECT_EQ(group_memory_bytes(path_, "4:memoryless:/docker\nnonsense\n\n:"), UINT64_MAX);
}

TEST_F(ControlGroupTest, AQuotaOfCoresIsRoundedUpAndThatOfTheParentsCounts) {
  EXPECT_EQ(group_cores(path_, "0::/pod\n"), UINT64_MAX);
  write("/pod", "cpu.max", "400000 100000");
  write("/pod/box", "cpu.max", "max 100000");
  EXPECT_EQ(group_cores(path_, "0::/pod/box\n"), 4U);
  write("/pod/box", "cpu.max", "150000 100000");
  EXPECT_EQ(group_cores(path_, "0::/pod/box\n"), 2U);
  write("/pod/box", "cpu.max", "1000 100000");
  EXPECT_EQ(group_cores(path_, "0::/pod/box\n"), 1U) << "a hundredth of a core";
  for (const char* const wrong : {"", "x", "100000", "100000 0", "-1 100000"}) {
    write("/pod/box", "cpu.max", wrong);
    EXPECT_EQ(group_cores(path_, "0::/pod/box\n"), 4U) << wrong;
  }
}

TEST_F(ControlGroupTest, QuotasOfVersionOneAreReadToo) {
  write("/cpu/docker", "cpu.cfs_quota_us", "250000");
  write("/cpu/docker", "cpu.cfs_period_us", "100000");
  write("/cpu/docker/free", "cpu.cfs_quota_us", "-1");
  write("/cpu/docker/free", "cpu.cfs_period_us", "100000");
  EXPECT_EQ(group_cores(path_, "5:cpu,cpuacct:/docker\n4:memory:/x\n"), 3U);
  EXPECT_EQ(group_cores(path_, "5:cpu,cpuacct:/docker/free\n"), 3U);
  EXPECT_EQ(group_cores(path_, "5:cpuset:/docker\n"), UINT64_MAX);
}

TEST(ControlGroup, ThisProcessMayUseSomething) {
  EXPECT_GT(usable_memory_bytes(), 1U << 20U);
  EXPECT_LT(usable_memory_bytes(), 1ULL << 50U);
  EXPECT_GE(usable_cores(), 1U);
  EXPECT_LE(usable_cores(), 4096U);
}

}  // namespace
}  // namespace paddle
