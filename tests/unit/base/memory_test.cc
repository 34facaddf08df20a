#include "engine/base/memory.h"

#include <fstream>

#include "tests/unit/base/temporary_directory.h"

namespace paddle {
namespace {

class MemoryTest : public TemporaryDirectory {
 protected:
  void limit(const std::string& group, const std::string& text) const {
    std::filesystem::create_directories(path_ + group);
    std::ofstream(path_ + group + "/memory.max") << text << "\n";
  }
};

TEST_F(MemoryTest, AGroupIsBoundByItsAncestorsToo) {
  EXPECT_EQ(group_memory_bytes(path_, "/"), UINT64_MAX);
  limit("/job", "1000000");
  limit("/job/step", "max");
  limit("/job/step/task", "5000000");
  EXPECT_EQ(group_memory_bytes(path_, "/job/step/task"), 1'000'000U);
  EXPECT_EQ(group_memory_bytes(path_, "/job/step"), 1'000'000U);
  EXPECT_EQ(group_memory_bytes(path_, "/other"), UINT64_MAX);
  limit("", "70000");
  EXPECT_EQ(group_memory_bytes(path_, "/job/step/task"), 70'000U);
  EXPECT_EQ(group_memory_bytes(path_, ""), 70'000U);
}

TEST_F(MemoryTest, ParametersMayTakeMostOfWhatThereIs) {
  EXPECT_GT(usable_memory_bytes(), 1U << 20U);
  EXPECT_LT(usable_memory_bytes(), 1ULL << 50U);
  EXPECT_LT(parameter_memory_bytes(), usable_memory_bytes());
}

}  // namespace
}  // namespace paddle
