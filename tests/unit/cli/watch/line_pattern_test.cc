#include <gtest/gtest.h>

#include "cli/watch/log_line.h"

namespace paddle::cli {
namespace {

TEST(LinePattern, IsAnExtendedRegularExpression) {
  const auto pattern = LinePattern::compile("warn|err(or)?$");
  ASSERT_TRUE(pattern);
  EXPECT_TRUE(pattern->matches("a warning"));
  EXPECT_TRUE(pattern->matches("an error"));
  EXPECT_FALSE(pattern->matches("errors: none"));
}

TEST(LinePattern, ALineEndsWhereItEnds) {
  const auto pattern = LinePattern::compile("end$");
  ASSERT_TRUE(pattern);
  const std::string text = "the end of another";
  EXPECT_TRUE(pattern->matches(std::string_view(text).substr(0, 7)));
  EXPECT_FALSE(pattern->matches(text));
  EXPECT_TRUE(LinePattern::compile("b")->matches(std::string_view("a\0b", 3)));
}

TEST(LinePattern, AnEmptyOneMatchesEveryLine) {
  EXPECT_TRUE(LinePattern::compile("")->matches(""));
  EXPECT_TRUE(LinePattern::compile("")->matches("x"));
}

TEST(LinePattern, AMistakeIsQuoted) {
  const auto wrong = LinePattern::compile("a(b");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, Errc::kUsage);
  EXPECT_TRUE(wrong.error().message.starts_with("--grep 'a(b': ")) << wrong.error().message;
}

}  // namespace
}  // namespace paddle::cli
