#include "base/text_bits.h"

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

namespace paddle {
namespace {

TEST(TextBits, LoadShortTakesEverySize) {
  const std::string text = "abcdefgh";
  for (std::size_t size = 1; size <= 8; ++size) {
    std::uint64_t expected = 0;
    for (std::size_t i = 0; i < size; ++i)
      expected |= std::uint64_t{static_cast<unsigned char>(text[i])} << (8 * i);
    EXPECT_EQ(load_short(std::string_view(text).substr(0, size)), expected) << size;
  }
}

TEST(TextBits, AreEqualComparesEveryByteAndTheSize) {
  for (std::size_t size = 0; size < 20; ++size) {
    const std::string one(size, 'x');
    EXPECT_TRUE(are_equal(one, std::string(size, 'x')));
    EXPECT_FALSE(are_equal(one, one + "x"));
    EXPECT_FALSE(are_equal(one + '\0', one));
    for (std::size_t i = 0; i < size; ++i) {
      std::string other = one;
      other[i] = 'y';
      EXPECT_FALSE(are_equal(one, other)) << size << " " << i;
    }
  }
}

TEST(TextBits, IsAsciiLooksAtEveryByte) {
  for (std::size_t size = 0; size < 30; ++size) {
    std::string text(size, '\x7f');
    EXPECT_TRUE(is_ascii(text));
    for (std::size_t i = 0; i < size; ++i) {
      text[i] = '\x80';
      EXPECT_FALSE(is_ascii(text)) << size << " " << i;
      text[i] = '\0';
    }
  }
}

TEST(ByteBlock, MarksEachByteThatMatches) {
  for (std::size_t at = 0; at < ByteBlock::kBytes; ++at) {
    std::string text(100, 'x');
    text[10 + at] = '{';
    EXPECT_EQ(ByteBlock(text, 10).matches('{'), std::uint64_t{1} << at);
    EXPECT_EQ(ByteBlock(text, 10).matches('x'), ~(std::uint64_t{1} << at));
    EXPECT_EQ(ByteBlock(text, 10).matches('['), 0U);
    text[10 + at] = '[';
    EXPECT_EQ(ByteBlock(text, 10).matches('{', ' '), std::uint64_t{1} << at) << "without 0x20";
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
