// The threat table of docs/security.md: each row names tests, and they are there; each fuzz target
// is in a row.
#include <fstream>
#include <regex>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "tests/tidy/sources.h"

namespace paddle::tidy {
namespace {

// The corpus test of a fuzz target has its suite's name from there.
std::set<std::string> names_of_fuzz_tests() {
  const std::regex fuzz_target(R"(^fuzz_target\(\w+ SUITE (\w+))");
  std::ifstream targets(SOURCE_DIR "/tests/fuzz/CMakeLists.txt");
  std::set<std::string> names;
  std::smatch found;
  for (std::string line; std::getline(targets, line);) {
    if (!std::regex_search(line, found, fuzz_target)) continue;
    names.insert(found.str(1) + ".RunsItsCorpusAndMutationsOfIt");
  }
  return names;
}

std::set<std::string> names_of_tests() {
  const std::regex test(R"(^TEST(?:_F|_P)?\((\w+), (\w+)\))");
  std::set<std::string> names = names_of_fuzz_tests();
  for (const Source& source : test_sources()) {
    std::smatch found;
    for (const std::string& line : source.lines) {
      if (std::regex_search(line, found, test)) names.insert(found.str(1) + "." + found.str(2));
    }
  }
  return names;
}

}  // namespace

TEST(Threats, EveryRowNamesTestsThatAreThere) {
  const std::set<std::string> there = names_of_tests();
  std::ifstream page(SOURCE_DIR "/docs/security.md");
  std::string line;
  while (std::getline(page, line) && !line.starts_with("| threat |")) continue;
  std::getline(page, line);  // |---|
  const std::regex named(R"(`(\w+\.\w+)`)");
  int rows = 0;
  for (; std::getline(page, line) && line.starts_with("|"); ++rows) {
    const std::string tests = line.substr(line.rfind('|', line.size() - 2));
    std::sregex_iterator test(tests.begin(), tests.end(), named);
    EXPECT_NE(test, std::sregex_iterator()) << "no test in: " << line;
    for (; test != std::sregex_iterator(); ++test) {
      EXPECT_TRUE(there.count((*test)[1])) << (*test)[1] << " is no test; the row is\n" << line;
    }
  }
  EXPECT_GT(rows, 20);
}

TEST(Threats, EveryFuzzTargetIsInARow) {
  std::ifstream page(SOURCE_DIR "/docs/security.md");
  const std::string text{std::istreambuf_iterator<char>(page), {}};
  for (const std::string& name : names_of_fuzz_tests())
    EXPECT_NE(text.find("`" + name + "`"), std::string::npos) << name;
}

}  // namespace paddle::tidy
