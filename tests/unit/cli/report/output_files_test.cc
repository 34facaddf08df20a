#include <gtest/gtest.h>

#include "cli/report/record.h"
#include "tests/support/temporary_folder.h"

namespace paddle::cli {
namespace {

std::vector<std::string> lines_of(const test::TemporaryFolder& folder, const std::string& text) {
  folder.write("log", text);
  std::vector<std::string> lines;
  each_line(folder.path(), "log", [&](const std::string& line) { lines.push_back(line); });
  return lines;
}

// A node may write a log of one line.
TEST(EachLine, LeavesOutLinesThatAreTooLongToBeOurs) {
  const test::TemporaryFolder folder;
  using Lines = std::vector<std::string>;
  const std::string most(64U << 10U, 'm');
  const std::string endless(5U << 20U, 'x');
  EXPECT_EQ(lines_of(folder, "a\n\nb"), (Lines{"a", "", "b"}));
  EXPECT_EQ(lines_of(folder, "a\n" + endless + "\n" + most + "\nb\n"), (Lines{"a", most, "b"}));
  EXPECT_EQ(lines_of(folder, endless), Lines());
  EXPECT_EQ(lines_of(folder, ""), Lines());
  EXPECT_EQ(lines_of(folder, "a\n" + endless), Lines{"a"});
}

}  // namespace
}  // namespace paddle::cli
