// The first model of a newcomer: the ten lines of README.md from a template to numpy, typed as they
// stand there.
#include <regex>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/free_ports.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

// The indented lines after this one.
std::vector<std::string> lines_after(const std::string& begin) {
  std::istringstream readme(TemporaryFolder::read(README));
  std::vector<std::string> lines;
  bool is_after = false;
  for (std::string line; std::getline(readme, line);) {
    if (line.starts_with(begin)) is_after = true;
    if (is_after && line.starts_with("    ")) lines.push_back(line.substr(4));
    if (!lines.empty() && line.empty()) break;
  }
  return lines;
}

TEST(Readme, ItsTenLinesTrainAModelAndUseIt) {
  const std::vector<std::string> lines = lines_after("## Using the model");
  ASSERT_EQ(lines.size(), 10U);
  const TemporaryFolder folder;
  const std::string path =
      "PATH=" + fs::path(PADDLECTL_PROGRAM).parent_path().string() + ":/usr/bin:/bin";
  for (const char* const needed : {"curl --version", "python3 -c 'import numpy'"}) {
    if (Process({"/bin/sh", "-c", needed}, folder / "needed", {path}).wait() != 0)
      GTEST_SKIP() << "there is no " << needed;
  }
  std::string script = "set -eu\ntrap 'kill $! 2>/dev/null || :' EXIT\n";  // of what still serves
  for (const std::string& line : lines) script += line + "\n";
  const std::string port = fmt::format("{}", free_ports(1));
  script = std::regex_replace(script, std::regex("8500"), port);
  folder.write("lines", script);
  Process typed({"/usr/bin/env", "-C", folder.path(), "HOME=" + folder.path(), "sh", "lines"},
                folder / "typed", {path});
  ASSERT_EQ(typed.wait(std::chrono::seconds(100)), 0) << typed.output();

  const std::string shown = typed.output();
  for (const char* const said :
       {R"(Test samples=\d+ cost=[\d.]+ Eval: rmse=[\d.]+)", R"(\n7 +\d+ \(0\.\d\d\) )",
        R"re(\{"score":[\d.]+\})re", R"(\n\(\d+, 32\)\n)"})
    EXPECT_TRUE(std::regex_search(shown, std::regex(said))) << said << "\n" << shown;
  EXPECT_TRUE(std::regex_search(TemporaryFolder::read(folder / "scores.csv"),
                                std::regex("^[0-9.]+,[0-9.]+\n")));
}

}  // namespace
}  // namespace paddle::test
