#include "engine/config/data_check.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace paddle::config {
namespace {

class DataCheckTest : public testing::Test {
 protected:
  DataCheckTest() {
    data_.format = "csv";
    data_.columns = {"age", "tenure", "churned"};
  }

  std::string hint(std::string_view line) {
    const Status checked = check_header(line, data_);
    if (checked) return "none";
    EXPECT_EQ(checked.error().code, Errc::kUsage);
    return checked.error().hint;
  }
  std::string of_words(const std::string& words) {
    folder_.write("words.txt", words);
    const Status checked = check_dictionary(data_, folder_.path());
    if (checked) return "none";
    EXPECT_EQ(checked.error().code, Errc::kData);
    const std::string& message = checked.error().message;
    return message.substr(message.find("words.txt"));
  }

  test::TemporaryFolder folder_;
  DataConfig data_;
};

TEST_F(DataCheckTest, AHeaderNamesTheColumns) {
  for (const char* const good : {"age,tenure,churned", "age, tenure ,churned ",
                                 R"("age","tenure",churned)", R"( "age" , "tenure" ,"churned")"})
    EXPECT_EQ(hint(good), "none") << good;
  data_.columns[1] = "a \"b\", c";
  EXPECT_EQ(hint(R"(age,"a ""b"", c",churned)"), "none");
  data_.trim = false;
  EXPECT_NE(hint(R"(age, "a ""b"", c",churned)"), "none");
}

TEST_F(DataCheckTest, DataForPredictionsNeedsTheColumnOfTheLabel) {
  for (const auto& [line, column] : std::vector<std::pair<std::string, std::string>>{
           {"age,tenure", "churned"}, {"tenure,churned", "age"}, {"age,churned", "tenure"}}) {
    EXPECT_EQ(hint(line), "the column '" + column +
                              "' is missing: data for predictions has the label's column too, "
                              "with any label; for other data [data] columns names every column "
                              "of the file");
  }
}

TEST_F(DataCheckTest, AnotherHeaderIsToldHowToBeRead) {
  EXPECT_EQ(hint("age;tenure;churned"), "set [data] delimiter = \";\"");
  EXPECT_EQ(hint("age\ttenure\tchurned"), "set [data] delimiter = \"\\t\"");
  EXPECT_EQ(hint("age,churned,tenure"),
            "[data] columns must name them all, in this order: "
            "columns = [\"age\", \"churned\", \"tenure\"]");
  EXPECT_EQ(hint("age,tenure,city,churned"),
            "[data] columns must name them all, in this order: "
            "columns = [\"age\", \"tenure\", \"city\", \"churned\"]");
  EXPECT_TRUE(hint("39,2,0").starts_with("it has numbers: if it is not a header, "));
  for (const char* const other : {"", "age", "\"age,tenure", "age,,churned", "a\"b,c,d",
                                  "age,tenure,\"churned", "\"ag\"e,tenure,churned"})
    EXPECT_EQ(hint(other), "[data] columns must name them all, in this order") << other;
  EXPECT_TRUE(check_header("x\ny", data_)
                  .error()
                  .message.starts_with(
                      "the first line 'x\\x0ay' does not name the columns age, tenure, churned"));
}

TEST_F(DataCheckTest, HeadersOfOtherProgramsAreNamed) {
  EXPECT_TRUE(hint(",age,tenure,churned").starts_with("the first column has no name, as the index"))
      << hint(",age,tenure,churned");
  EXPECT_TRUE(hint("\"\", age,tenure,churned").starts_with("the first column has no name"));
  EXPECT_EQ(hint("age,tenure,churned,"),
            "each line ends with a delimiter, which must be removed: "
            "sed 's/,[[:blank:]\\r]*$//' OLD >NEW");
  EXPECT_EQ(hint("sep=,"), "spreadsheets write this line: sed 1d OLD >NEW removes it");
  EXPECT_EQ(hint("# made by x"), "a csv file has no comments: sed '/^#/d' OLD >NEW removes them");
  EXPECT_EQ(hint("# age,tenure,churned"),
            "names are written without '#': sed -E '1s/^#+ *//' OLD >NEW");
  EXPECT_EQ(hint("##"), "a csv file has no comments: sed '/^#/d' OLD >NEW removes them");
  data_.delimiter = '\t';
  EXPECT_NE(hint("age\ttenure\tchurned\t").find("sed 's/\\t[[:blank:]\\r]*$//'"),
            std::string::npos);
  data_.delimiter = '*';
  EXPECT_EQ(hint("age*tenure*churned*"), "each line ends with a delimiter, which must be removed");
  data_.delimiter = ',';
  // Other mistakes have their own hints.
  EXPECT_TRUE(hint(",age,churned,tenure").starts_with("[data] columns must name them all"));
  data_.columns.front() = "#age";
  EXPECT_EQ(hint("#age,tenure,churned"), "none");
  EXPECT_TRUE(hint("#age,churned,tenure").starts_with("[data] columns must name them all"));
}

TEST_F(DataCheckTest, NamesOfColumnsMayBeARecordWhereNoNumberIsRead) {
  data_.slots = {{.name = "x", .type = SlotType::kId, .columns = {0}}};
  EXPECT_TRUE(names_are_no_record(data_));
  data_.slots[0].labels = {"age", "no"};
  EXPECT_FALSE(names_are_no_record(data_));
  data_.slots = {{.name = "x", .type = SlotType::kHash, .columns = {0, 1, 2}}};
  EXPECT_FALSE(names_are_no_record(data_));
  data_.columns = {"0", "1", "2"};
  data_.slots = {{.name = "x", .type = SlotType::kFloat, .width = 3, .columns = {0, 1, 2}}};
  EXPECT_FALSE(names_are_no_record(data_));
}

TEST_F(DataCheckTest, ADictionaryHasAWordALine) {
  data_.format = "bow";
  data_.dictionary = "words.txt";
  for (const char* const good : {"a\nb\n<unk>\n",
                                 "\xef\xbb\xbf"
                                 "a\r\nb\r\n<unk>",
                                 "a\r<unk>\r",
                                 "a\xc2\xa0"
                                 "b\n<unk>\n"})
    EXPECT_EQ(of_words(good), "none") << good;
  EXPECT_EQ(of_words("a\nb 17\n<unk> 0\n"),
            "words.txt:2: 'b 17' contains a blank, so it matches no word of a text");
  EXPECT_EQ(of_words("a\t9\n<unk>\n"),
            "words.txt:1: 'a\t9' contains a blank, so it matches no word of a text");
  EXPECT_EQ(of_words("a\nb \n<unk>\n"),
            "words.txt:2: 'b ' contains a blank, so it matches no word of a text");
  EXPECT_EQ(of_words("a\nb\nNew York\nc\n<unk>\n"), "none") << "no text finds it";
  EXPECT_EQ(of_words("<unk>\na\nb\n"), "words.txt: the last line is not <unk>, but 'b'");
  EXPECT_EQ(of_words("a\n<unk>\n\n"), "words.txt: the last line is not <unk>, but ''");
  EXPECT_EQ(of_words(std::string("\xff\xfe"
                                 "a\0\n\0",
                                 6)),
            "words.txt: it has zero bytes, but a dictionary is text in UTF-8");
  // Elsewhere lines are names of ids.
  data_.format = "csv";
  EXPECT_EQ(of_words("New York\nRome\n"), "none");
}

}  // namespace
}  // namespace paddle::config
