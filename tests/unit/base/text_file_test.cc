#include "base/text_file.h"

#include <gtest/gtest.h>

namespace paddle {
namespace {

const std::string kMark = "\xef\xbb\xbf";

TEST(TextFile, LeavesOutAByteOrderMarkAtTheHead) {
  EXPECT_EQ(without_byte_order_mark("\xef\xbb\xbf-a"), "-a");
  EXPECT_EQ(without_byte_order_mark("\xef\xbb"), "\xef\xbb");
  EXPECT_EQ(text_of_lines(kMark + "a\n" + kMark + "b\n"), "a\n" + kMark + "b\n");
  EXPECT_EQ(text_of_lines(kMark), "");
}

TEST(TextFile, TakesCarriageReturnsForLineEndsWhereThereAreNoOthers) {
  EXPECT_EQ(text_of_lines("a\rb\r"), "a\nb\n");
  EXPECT_EQ(text_of_lines("a\r\nb\rc\n"), "a\r\nb\rc\n");
  EXPECT_EQ(text_of_lines("a"), "a");
}

}  // namespace
}  // namespace paddle
