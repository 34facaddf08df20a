// The planted bugs of scripts/mutants: one that does not apply proves nothing, and would be noticed
// only when all of them run.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
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

// "# killed by: Suite.Name in cluster_sim_test": scripts/mutants builds and runs that program.
TEST(PlantedBugs, EachNamesAProgramOfTestsThatIsBuilt) {
  const std::string root = SOURCE_DIR;
  std::string targets;
  for (const auto& file : std::filesystem::recursive_directory_iterator(root + "/tests")) {
    if (file.path().filename() != "CMakeLists.txt") continue;
    std::ifstream in(file.path());
    targets.append(std::istreambuf_iterator<char>(in), {});
  }
  for (const auto& file : std::filesystem::directory_iterator(root + "/tests/sim/planted")) {
    std::ifstream in(file.path());
    std::string line;
    std::getline(in, line);
    std::smatch match;
    ASSERT_TRUE(std::regex_search(line, match, std::regex(R"( in (\w+)$)"))) << file.path();
    EXPECT_NE(targets.find("_test(" + match[1].str() + " "), std::string::npos) << file.path();
  }
}

}  // namespace
}  // namespace paddle::tidy
