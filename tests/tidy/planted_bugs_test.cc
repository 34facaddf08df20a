// The planted bugs of scripts/mutants: one that does not apply proves nothing, and would be noticed
// only when all of them run.
#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

namespace paddle::tidy {
namespace {

TEST(PlantedBugs, EachAppliesAsItIs) {
  std::size_t count = 0;
  const std::string root = SOURCE_DIR;
  for (const auto& file : std::filesystem::directory_iterator(root + "/tests/sim/planted")) {
    const std::string command = "patch --strip=1 --fuzz=0 --dry-run --silent --directory='" + root +
                                "' --input='" + file.path().string() + "'";
    EXPECT_EQ(std::system(command.c_str()), 0) << file.path();
    ++count;
  }
  EXPECT_GE(count, 68U);
}

}  // namespace
}  // namespace paddle::tidy
