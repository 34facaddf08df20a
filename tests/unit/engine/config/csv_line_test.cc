#include "engine/config/csv_line.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace paddle::config {
namespace {

using Fields = std::vector<std::string>;

Fields split(std::string_view text, char delimiter = ',', bool trims = true) {
  CsvLine line(delimiter, trims);
  if (auto good = line.split(text); !good) return {"error", good.error().message};
  return {line.fields().begin(), line.fields().end()};
}

TEST(CsvLine, BlanksAroundAFieldAreNoPartOfIt) {
  EXPECT_EQ(split("a , b\t,c"), (Fields{"a", "b", "c"}));
  EXPECT_EQ(split("a , b", ',', false), (Fields{"a ", " b"}));
  EXPECT_EQ(split("a \t b", '\t'), (Fields{"a", "b"}));
  EXPECT_EQ(split(" a b", ' '), (Fields{"", "a", "b"}));
  EXPECT_EQ(split(""), (Fields{""}));
  EXPECT_EQ(split(" , "), (Fields{"", ""}));
}

TEST(CsvLine, QuotedFieldsKeepDelimitersBlanksAndQuotes) {
  EXPECT_EQ(split(R"("a,b" , " c ","d""e")"), (Fields{"a,b", " c ", R"(d"e)"}));
  EXPECT_EQ(split(R"("",x)"), (Fields{"", "x"}));
  EXPECT_EQ(split(R"( "a")", ',', false), (Fields{R"( "a")"})) << "no quoted field without trim";
  EXPECT_EQ(split(R"(a"b,c)"), (Fields{R"(a"b)", "c"}));
}

TEST(CsvLine, AQuoteThatIsNotClosedIsRefused) {
  EXPECT_EQ(split(R"(a,"b)")[0], "error");
  EXPECT_EQ(split(R"("a"b)"), (Fields{"error", "text follows a closing quote"}));
  EXPECT_EQ(split(R"("a" )", ',', false), (Fields{"error", "text follows a closing quote"}));
}

TEST(CsvLine, LongLinesAreSplitAtEveryDelimiter) {
  for (std::size_t count : {1, 31, 32, 33, 63, 64, 65, 200}) {
    const std::string text(count, ';');
    EXPECT_EQ(split(text, ';').size(), count + 1);
  }
}

}  // namespace
}  // namespace paddle::config
