#include "base/text.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "base/rng.h"

namespace paddle {
namespace {

using namespace std::string_view_literals;

TEST(EscapeControl, KeepsTextAndShowsWhatWouldPaintATerminal) {
  EXPECT_EQ(escape_control("plain text\twith a tab"), "plain text\twith a tab");
  EXPECT_EQ(escape_control("grün 漢字 🙂"), "grün 漢字 🙂");
  EXPECT_EQ(escape_control("\x1b[31mred\x1b[0m"), "\\x1b[31mred\\x1b[0m");
  EXPECT_EQ(escape_control("a\nb\rc\0d\x7f"sv), "a\\x0ab\\x0dc\\x00d\\x7f");
  EXPECT_EQ(escape_control("\xc2\x9b"
                           "31m"),
            "\\xc2\\x9b"
            "31m");                                              // C1: another CSI
  EXPECT_EQ(escape_control("\xe2\x80\xae"), "\\xe2\\x80\\xae");  // right-to-left override
  EXPECT_EQ(escape_control("\xff\xc0\x80"), "\\xff\\xc0\\x80");  // never UTF-8
  EXPECT_EQ(escape_control("\xe6\xbc"), "\\xe6\\xbc");           // cut short
  EXPECT_EQ(escape_control(""), "");
}

TEST(EscapeControl, TakesTheShortestFormOfACharacterOnly) {
  EXPECT_EQ(escape_control("\xe0\x82\x9b"), "\\xe0\\x82\\x9b");           // C1, overlong
  EXPECT_EQ(escape_control("\xf0\x80\x82\x9b"), "\\xf0\\x80\\x82\\x9b");  // the same
  EXPECT_EQ(escape_control("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // a surrogate
  EXPECT_EQ(escape_control("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // past U+10FFFF
  for (const std::string_view good :
       {"\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(escape_control(good), good);
  }
}

TEST(PassWords, CountFromOneAndNameTheSnapshot) {
  EXPECT_EQ(pass_words(0), "pass 1 (pass-00000)");
  EXPECT_EQ(pass_words(1, 10), "pass 2 of 10 (pass-00001)");
  EXPECT_EQ(pass_words(9, 10), "pass 10 of 10 (pass-00009)");
  EXPECT_EQ(pass_words(123456), "pass 123457 (pass-123456)");
}

TEST(Nearest, FindsATypingMistakeAndNothingElse) {
  const std::string_view keys[] = {"passes", "batch_size", "port", "ports_num"};
  EXPECT_EQ(nearest("pases", keys), "passes");
  EXPECT_EQ(nearest("prot", keys), "port");
  EXPECT_EQ(nearest("bach_siez", keys), "batch_size");
  EXPECT_EQ(nearest("learning_rate", keys), "");
  EXPECT_EQ(nearest("x", keys), "");
  EXPECT_EQ(nearest("port", {}), "");
}

// Most candidates are given up early, which changes no answer.
TEST(Nearest, IsTheFirstOfTheSmallestEditDistance) {
  const auto distance = [](std::string_view a, std::string_view b) {
    std::vector<std::vector<std::size_t>> table(a.size() + 1,
                                                std::vector<std::size_t>(b.size() + 1));
    for (std::size_t i = 0; i <= a.size(); ++i) {
      for (std::size_t j = 0; j <= b.size(); ++j) {
        if (i == 0 || j == 0) {
          table[i][j] = i + j;
          continue;
        }
        const std::size_t replaced = table[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
        table[i][j] = std::min({replaced, table[i - 1][j] + 1, table[i][j - 1] + 1});
      }
    }
    return table[a.size()][b.size()];
  };
  std::uint64_t seed = 1;
  const auto word = [&] {
    seed = mix64(seed);
    std::string made(seed % 9, 'a');
    for (char& c : made) {
      seed = mix64(seed);
      c = static_cast<char>('a' + seed % 3);
    }
    return made;
  };
  std::size_t found = 0;
  for (int round = 0; round < 2000; ++round) {
    const std::string wanted = word();
    std::vector<std::string> words(8);
    for (std::string& each : words) each = word();
    std::size_t best = 4;
    std::string expected;
    for (const std::string& each : words) {
      const std::size_t far = distance(wanted, each);
      if (far >= best || far * 2 >= std::max(wanted.size(), each.size()) + 1) continue;
      best = far;
      expected = each;
    }
    found += expected.empty() ? 0 : 1;
    const std::vector<std::string_view> candidates(words.begin(), words.end());
    ASSERT_EQ(nearest(wanted, candidates), expected) << wanted;
  }
  EXPECT_GT(found, 500U);
}

// A client may send a text of megabytes in place of a label.
TEST(Nearest, TakesNoTimeForATextThatIsFarFromAll) {
  const std::vector<std::string> names(1000, std::string(1000, 'x'));
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  EXPECT_EQ(nearest(std::string(8'000'000, 'z'), candidates), "");
  EXPECT_EQ(nearest(std::string(1000, 'z'), candidates), "");
}

TEST(Nearest, IgnoresTheCaseOfLetters) {
  const std::string_view methods[] = {"sgd", "adam", "adamw"};
  EXPECT_EQ(nearest("SGD", methods), "sgd");
  EXPECT_EQ(nearest("Adam", methods), "adam");
  const std::string_view columns[] = {"Age", "Price"};
  EXPECT_EQ(nearest("age", columns), "Age");
}

TEST(ToHex, WritesTwoLowerCaseDigitsAByte) {
  EXPECT_EQ(to_hex(as_bytes("\x00\x7f\xff\n"sv)), "007fff0a");
  EXPECT_EQ(to_hex({}), "");
}

TEST(EscapeLines, KeepsLineBreaksAlone) {
  EXPECT_EQ(escape_lines("a\x1b[2J\n  b\r\n\n"), "a\\x1b[2J\n  b\\x0d\n\n");
  EXPECT_EQ(escape_lines(""), "");
  EXPECT_EQ(escape_lines("one"), "one");
}

}  // namespace
}  // namespace paddle
