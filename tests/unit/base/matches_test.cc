#include "base/matches.h"

#include <string>

#include <gtest/gtest.h>

namespace paddle {
namespace {

TEST(ByteBlock, MarksEachByteThatMatches) {
  for (std::size_t at = 0; at < ByteBlock::kBytes; ++at) {
    std::string text(100, 'x');
    text[10 + at] = '{';
    EXPECT_EQ(ByteBlock(text, 10).matches('{'), std::uint64_t{1} << at);
    EXPECT_EQ(ByteBlock(text, 10).matches('x'), ~(std::uint64_t{1} << at));
    EXPECT_EQ(ByteBlock(text, 10).matches('['), 0U);
    text[10 + at] = '[';
    EXPECT_EQ(ByteBlock(text, 10).matches('{', ' '), std::uint64_t{1} << at) << "the bit of 0x20";
  }
}

TEST(ByteBlock, HasNoMatchAfterTheTextsEnd) {
  const std::string text(100, 'x');
  EXPECT_EQ(ByteBlock(std::string_view(text).substr(0, 70), 64).matches('x'), 0x3fU);
  EXPECT_EQ(ByteBlock(std::string_view(text).substr(0, 64), 0).matches('x'), ~std::uint64_t{0});
}

TEST(ByteBlock, TakesBytesOf128AndMore) {
  const std::string text(64, '\xff');
  EXPECT_EQ(ByteBlock(text, 0).matches('\xff'), ~std::uint64_t{0});
  EXPECT_EQ(ByteBlock(text, 0).matches('\x7f'), 0U);
}

}  // namespace
}  // namespace paddle
