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

TEST(TextFile, TellsUtf8FromOtherBytes) {
  for (const char* const good : {"", "a", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf",
                                 "\xef\xbf\xbf", "\xf0\x90\x80\x80",
                                 "\xf4\x8f\xbf\xbf"
                                 "a"})
    EXPECT_TRUE(is_utf8(good)) << good;
  for (const char* const other :
       {"\x80", "\xc1\xbf", "\xc3", "a\xc3", "\xc3(", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xe2\x82",
        "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xf0\x9f\x98", "\xff"})
    EXPECT_FALSE(is_utf8(other)) << other;
  EXPECT_TRUE(is_utf8(std::string_view("a\0b", 3)));
}

}  // namespace
}  // namespace paddle
