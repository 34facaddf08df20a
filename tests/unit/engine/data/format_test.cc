// Tests of each format with good and with wrong lines.
#include "engine/data/format.h"

#include <cmath>

#include "base/rng.h"
#include "engine/config/sections.h"
#include "engine/data/chunk_reader.h"
#include "engine/data/fields.h"
#include "tests/unit/engine/data/data_fixture.h"

namespace paddle::data {
namespace {

using config::DataSlotConfig;
using config::SlotType;
using Records = std::vector<std::string>;

class FormatTest : public DataTest {
 protected:
  void use_multislot() {
    options_.data = {};
    options_.data.format = "multislot";
    options_.data.slots = {{.name = "click"},
                           {.name = "passed", .type = SlotType::kIds, .used = false},
                           {.name = "price", .type = SlotType::kFloat, .width = 2},
                           {.name = "ads", .type = SlotType::kIds}};
  }
  void use_csv() {
    options_.data = {};
    options_.data.format = "csv";
    options_.data.columns = {"click", "age", "site", "tags", "fee"};
    options_.data.slots = {
        {.name = "click", .columns = {0}},
        {.name = "numbers", .type = SlotType::kFloat, .width = 2, .columns = {4, 1}},
        {.name = "site", .type = SlotType::kHash, .columns = {2}},
        {.name = "tags", .columns = {3}, .separator = '|'}};
  }
  void use_jsonl() {
    options_.data = {};
    options_.data.format = "jsonl";
    options_.data.slots = {{.name = "click"},
                           {.name = "numbers", .type = SlotType::kFloat, .width = 2},
                           {.name = "age", .type = SlotType::kFloat},
                           {.name = "site", .type = SlotType::kHash},
                           {.name = "seen", .type = SlotType::kIds},
                           {.name = "tags", .type = SlotType::kHashes}};
  }
  void use(const std::string& format) {
    options_.data = {};
    options_.data.format = format;
  }
  template <class Check>
  void in_each_format(const Check& check) {
    for (const char* format : {"ngram", "bow", "libsvm", "criteo"}) {
      use(format);
      check();
    }
    use_multislot();
    check();
    use_csv();
    check();
    use_jsonl();
    check();
  }
};

TEST_F(FormatTest, EveryFormatOfLinesHasAParser) {
  for (const config::DataFormat& format : config::data_formats()) {
    if (format.name == "npz") continue;
    use(std::string(format.name));
    EXPECT_NE(make_format(options_.data, dictionary_), nullptr) << format.name;
  }
}

TEST_F(FormatTest, NgramWindowsSlideOverTheMarkedSentence) {
  use("ngram");
  options_.data.ngram = 4;
  // The second sentence is too short for a window.
  EXPECT_EQ(parse("a  b\tx\n\n \nc\r\na b"), (Records{"0|2|3|5", "2|3|5|1", "0|2|3|1"}));
  EXPECT_EQ(parse(std::string("a b\0 b\n", 7)), (Records{"0|2|5|3", "2|5|3|1"}));
}

TEST_F(FormatTest, BagsOfWordsKeepTheirLengths) {
  EXPECT_EQ(parse("1\ta b a\n0\t\n12\tnone c\n"), (Records{"2 3 2|1", "|0", "5 4|12"}));
  EXPECT_EQ(mistake("1\ta\nno tab\n"), "bad.txt:2: not of the form label<TAB>words");
  EXPECT_EQ(mistake("1\ta\n\n-1\ta\n"),
            "bad.txt:3: the label '-1' is not a whole number from 0 to 2^64-1");
  EXPECT_EQ(mistake("\ta\n"), "bad.txt:1: the label '' is not a whole number from 0 to 2^64-1");
}

TEST_F(FormatTest, MultiSlotTakesSlotsInTheirOrder) {
  use_multislot();
  EXPECT_EQ(parse("1 1 2 7 8 2 0.5 -1e3 3 18446744073709551615 0 5\r\n\n1 0 1 1 2 1 +2 1 4"),
            (Records{"1|(0.5 -1000)|18446744073709551615 0 5", "0|(1 2)|4"}));
  EXPECT_EQ(mistake("1 1 1 7 2 1 1 1 4\n1 1 1 7 2 1 1 0\n"),
            "bad.txt:2: slot 'ads' has no values; the data must pad it");
  EXPECT_EQ(mistake("2 1 1\n"), "bad.txt:1: slot 'click' has 2 values, not 1");
  EXPECT_EQ(mistake("1 1 1 7 1 1 1 1 4\n"), "bad.txt:1: slot 'price' has 1 values, not 2");
  EXPECT_EQ(mistake("1 1 -1 7\n"),
            "bad.txt:1: slot 'passed': the number of values '-1' is not a whole number from 0 to "
            "2^64-1");
  EXPECT_EQ(mistake("1 1 1 18446744073709551616\n"),
            "bad.txt:1: slot 'passed': the value '18446744073709551616' is not a whole number from "
            "0 to 2^64-1");
  EXPECT_EQ(
      mistake("1 1 1 7 2 1 nan 1 4\n"),
      "bad.txt:1: slot 'price': the value 'nan' is not a finite number: it stands for a missing "
      "value");
  EXPECT_EQ(mistake("1 1 1 7 2 1 1 3 4 5\n"),
            "bad.txt:1: slot 'ads': the value '' is not a whole number from 0 to 2^64-1");
  EXPECT_EQ(mistake("1 1 1 7 2 1 1 1 4 9\n"),
            "bad.txt:1: after the last slot, '9' is not expected");
  EXPECT_EQ(mistake("1 1 99999999999 7\n"),
            "bad.txt:1: slot 'passed' has 99999999999 values, not up to 16777216");
}

TEST_F(FormatTest, LibSvmFeaturesHaveWeights) {
  use("libsvm");
  EXPECT_EQ(parse("+1 3:0.5 18446744073709551615:-2 # 4:1\n-1 qid:7 2:1e-3\n  \n# 5:1\n2\n"),
            (Records{"1|3:0.5 18446744073709551615:-2", "0|2:0.001", "2|"}));
  options_.data.float_label = true;
  options_.data.buckets = 10;
  EXPECT_EQ(parse("-1.5 23:1 4:2\n"), (Records{"(-1.5)|3:1 4:2"}));
  EXPECT_EQ(mistake("1 3\n"), "bad.txt:1: the feature '3' is not index:value");
  EXPECT_EQ(mistake("1 x:1\n"), "bad.txt:1: the index 'x' is not a whole number from 0 to 2^64-1");
  EXPECT_EQ(mistake("1 3:\n"), "bad.txt:1: the value '' is not a finite number");
  EXPECT_EQ(mistake("1 3:1e999\n"),
            "bad.txt:1: the value '1e999' is not a finite number: a float32 has at most 3.4e38");
  EXPECT_EQ(mistake("inf 3:1\n"), "bad.txt:1: the label 'inf' is not a finite number");
  EXPECT_EQ(mistake(std::string("1 3:1\0\n", 7)),
            "bad.txt:1: the value '1\\x00' is not a finite number");
}

TEST_F(FormatTest, LabelsMinusOneAndZeroOfOneFileAreThreeClasses) {
  use("libsvm");
  EXPECT_EQ(mistake("-1 1:1\n+1 1:1\n\n0 1:1\n-1 1:1\n"),
            "bad.txt:4: the label is 0 here and -1 in line 1, but both would be class 0");
  EXPECT_EQ(mistake("1 1:1\n-0.0 1:1\n1 1:1\n-1.0 1:1\n"),
            "bad.txt:4: the label is -1 here and 0 in line 2, but both would be class 0");
  EXPECT_NE(hint_of("-1 1:1\n0 1:1\n").find("labels = [\"-1\", \"0\", \"1\"]"), std::string::npos);
  EXPECT_EQ(parse("-1 1:1\n1 1:1\n"), (Records{"0|1:1", "1|1:1"}));
  EXPECT_EQ(parse("0 1:1\n1 1:1\n"), (Records{"0|1:1", "1|1:1"}));
  // A line that is left out has no label.
  options_.data.skip_bad_records = true;
  EXPECT_EQ(parse("-1 1:1\n0 x\n1 1:1\n"), (Records{"0|1:1", "1|1:1"}));
  EXPECT_NE(mistake("-1 1:1\n0 1:1\n1 1:1\n"), "none");
  options_.data.skip_bad_records = false;
  options_.data.labels = {"-1", "0", "1"};
  EXPECT_EQ(parse("-1 1:1\n0 1:1\n1 1:1\n"), (Records{"0|1:1", "1|1:1", "2|1:1"}));
  options_.data.labels.clear();
  options_.data.float_label = true;
  EXPECT_EQ(parse("-1 1:1\n0 1:1\n"), (Records{"(-1)|1:1", "(0)|1:1"}));
  use("criteo");
  const std::string rest(39, '\t');
  EXPECT_EQ(mistake("-1" + rest + "\n0" + rest + "\n"),
            "bad.txt:2: the label is 0 here and -1 in line 1, but both would be class 0");
}

TEST_F(FormatTest, LabelsMinusOneAndZeroAreFoundInChunksFarApartByAnyNumberOfThreads) {
  use("libsvm");
  std::string text = "-1 1:1\n";
  while (text.size() < 5 * kChunkBytes) text += "1 1:1\n";
  const auto line = std::ranges::count(text, '\n') + 1;
  // The other file may write its two classes in its own way.
  const std::string other = folder_.write("other.txt", "0 1:1\n1 1:1\n-1 1:1 0\n");
  for (const std::uint32_t threads : {1U, 4U}) {
    options_.data.threads = threads;
    EXPECT_EQ(mistake(text + "0 1:1\n"),
              fmt::format("bad.txt:{}: the label is 0 here and -1 in line 1, but both would be "
                          "class 0",
                          line));
    options_.data.files_at_once = 2;
    options_.data.skip_bad_records = true;
    options_.share.files = {folder_.write("good.txt", text), other};
    EXPECT_EQ(read_all().size(), static_cast<std::size_t>(line - 1) + 2);
    options_.data.files_at_once = 1;
    options_.data.skip_bad_records = false;
  }
}

TEST_F(FormatTest, CsvColumnsFillTheirSlots) {
  use_csv();
  const SlotHash site("site", 0);
  EXPECT_EQ(parse("1,30,\"a, \"\"b\"\"\",5|6,0.5\n\n0,,x,,\r\n"),
            (Records{fmt::format("1|(0.5 30)|{}|5 6", site("a, \"b\"")),
                     fmt::format("0|(0 0)|{}|", site("x"))}));
  EXPECT_NE(site("x"), SlotHash("page", 0)("x"));
  EXPECT_EQ(mistake("1,2,3\n"), "bad.txt:1: 3 fields, not 5");
  EXPECT_EQ(mistake("1,1,\"a\nb\",4,5\n").substr(0, 26), "bad.txt:1: a quote is not ");
  EXPECT_EQ(mistake("1,2,3,4,5,6\n"), "bad.txt:1: 6 fields, not 5");
  EXPECT_EQ(mistake("1,x,3,4,5\n"), "bad.txt:1: column 'age': 'x' is not a finite number");
  EXPECT_EQ(mistake(",1,3,4,5\n"),
            "bad.txt:1: column 'click': '' is not a whole number from 0 to 2^64-1");
  EXPECT_EQ(mistake("1,1,\"3,4,5\n"),
            "bad.txt:1: a quote is not closed in this line, and a field cannot contain a line end");
  EXPECT_EQ(mistake("1,1,\"3\"x,4,5\n"), "bad.txt:1: text follows a closing quote");
}

// In another encoding the same text would be another id than in the JSON of a request.
TEST_F(FormatTest, TextsOfCsvAreUtf8) {
  use_csv();
  const SlotHash site("site", 0);
  EXPECT_EQ(parse("1,30,Z\xc3\xbcrich,5,0.5\n"),
            (Records{fmt::format("1|(0.5 30)|{}|5", site("Z\xc3\xbcrich"))}));
  EXPECT_EQ(mistake("1,30,Rome,5,0.5\n1,30,Z\xfcrich,5,0.5\n"),
            "bad.txt:2: column 'site': 'Z\\xfcrich' is not UTF-8");
}

TEST_F(FormatTest, JsonLinesAreObjectsWhoseKeysAreSlots) {
  use_jsonl();
  const SlotHash site("site", 0), tags("tags", 0);
  EXPECT_EQ(
      parse(R"({"click": 1, "numbers": [0.5, -2], "age": 30, "site": "a \u00e9", "seen": [7, 5],)"
            R"( "tags": ["x", 3], "unknown": {"a": [1]}})"
            "\n\n \t\n"
            R"({"tags": [], "site": 12, "age": true, "click": false})"
            "\r\n"
            R"({"click": 18446744073709551615, "site": null, "seen": null})"),
      (Records{
          fmt::format("1|(0.5 -2)|(30)|{}|7 5|{} {}", site("a \xc3\xa9"), tags("x"), tags("3")),
          fmt::format("0|(0 0)|(1)|{}||", site("12")),
          fmt::format("18446744073709551615|(0 0)|(0)|{}||", site(""))}));
  options_.data.buckets = 10;
  EXPECT_EQ(parse(R"({"click": 77, "site": "a"})"),
            Records{fmt::format("77|(0 0)|(0)|{}||", SlotHash("site", 10)("a"))});
  const std::string id = "' must be a whole number from 0 to 2^64-1, not ";
  const std::vector<std::pair<std::string, std::string>> wrong{
      {"1", "it is not a JSON object"},
      {"[1]", "it is not a JSON object: write one object per line, without [ ] around them"},
      {"[", "it is not a JSON object: write one object per line, without [ ] around them"},
      {"{", "it is not a JSON object: the line ends within the object; write one object per line"},
      {R"({"click": 1)",
       "it is not a JSON object: the line ends within the object; write one object per line"},
      {R"({"click": 1} {})",
       "it is not a JSON object: the line continues after the object; write one object per line"},
      {"{\"click\": 1, \"site\": \"caf\xe9\"}", "it is not a JSON object: its text is not UTF-8"},
      {R"({"click": 1, "site": "\ud83d"})",
       "it is not a JSON object: a \\u escape is half of a character, as \\ud83d without \\ude00"},
      {R"({"click": 1, "site": "\ude00"})",
       "it is not a JSON object: a \\u escape is half of a character, as \\ud83d without \\ude00"},
      {R"({"click": 1, "age": NaN})",
       "it is not a JSON object: NaN and Infinity are not JSON; write null"},
      {R"({"click": 1, "numbers": [-Infinity, 1]})",
       "it is not a JSON object: NaN and Infinity are not JSON; write null"},
      {"{'click': 1}", "it is not a JSON object: this is Python syntax; json.dumps() writes JSON"},
      {R"({"click": True})",
       "it is not a JSON object: this is Python syntax; json.dumps() writes JSON"},
      {"{}", "'click' is missing"},
      {R"({"click": null})", "'click' is missing"},
      {R"({"click": -1})", "'click" + id + "-1"},
      {R"({"click": 1.5})", "'click" + id + "1.5"},
      {R"({"click": "1"})", "'click" + id + "\"1\": write it without quotes"},
      {R"({"click": 18446744073709551616})", "'click" + id + "18446744073709551616"},
      {R"({"click": 1, "numbers": [1]})", "'numbers' must be a list of 2 numbers"},
      {R"({"click": 1, "numbers": [1, "2"]})", "'numbers' must be a list of 2 numbers"},
      {R"({"click": 1, "numbers": 1})", "'numbers' must be a list of 2 numbers"},
      {R"({"click": 1, "age": "30"})", "'age' must be a number"},
      {R"({"click": 1, "age": 1e999})", "the number 1e999 is beyond 1.8e308"},
      {R"({"click": 1, "unknown": )" + std::string(64, '['), "it is nested more than 64 deep"},
      {R"({"click": 1, "unknown": )" + std::string(63, '['),
       "it is not a JSON object: the line ends within the object; write one object per line"},
      {R"({"click": 1, "age": 1e300})", "'age' has 1e300, but a float32 has at most 3.4e38"},
      {R"({"click": 1, "numbers": [1, -1e39]})",
       "'numbers' has -1e39, but a float32 has at most 3.4e38"},
      {R"({"click": 1, "site": ["a"]})", "'site' must be a string"},
      {R"({"click": 1, "seen": 5})", "'seen' must be a list"},
      {R"({"click": 1, "seen": ["a"]})", "'seen" + id + "\"a\""},
      {R"({"click": 1, "tags": {"a": 1}})", "'tags' must be a list"},
      {R"({"click": 1, "tags": [["a"]]})", "'tags' must be a string"}};
  for (const auto& [line, what] : wrong)
    EXPECT_EQ(mistake(R"({"click": 0})"
                      "\n" +
                      line + "\n"),
              "bad.txt:2: " + what)
        << line;
}

TEST_F(FormatTest, BracketsInTextsOfJsonLinesAreNoNesting) {
  use_jsonl();
  const std::string text = std::string(100, '[') + R"(\"{\\)";
  EXPECT_EQ(parse(R"({"unknown": ")" + text + R"(", "click": 7})").size(), 1U);
  std::string lists = std::string(50, '[') + std::string(50, ']');
  EXPECT_EQ(parse(R"({"unknown": [)" + lists + "," + lists + R"(], "click": 7})").size(), 1U);
}

TEST_F(FormatTest, CsvSlotsOfSeveralColumnsHaveManyIds) {
  use_csv();
  options_.data.slots = {{.name = "click", .columns = {0}},
                         {.name = "text", .type = SlotType::kHash, .columns = {2, 3}}};
  options_.data.buckets = 100;
  const SlotHash hash("text", 100);
  EXPECT_LT(hash("x"), 100U);
  EXPECT_EQ(parse("1,30,x,y,0.5\n"), Records{fmt::format("1|{} {}", hash("x"), hash("y"))});
}

TEST_F(FormatTest, CsvFieldsMayBeginAnywhereInALine) {
  use_csv();
  for (std::size_t length = 0; length < 200; ++length) {
    const std::string name(length, 'x');
    EXPECT_EQ(parse("1,30," + name + ",5|6,0.5\n"),
              (Records{fmt::format("1|(0.5 30)|{}|5 6", SlotHash("site", 0)(name))}));
  }
}

TEST_F(FormatTest, CsvHeadersMustNameTheColumns) {
  use_csv();
  options_.data.has_header = true;
  EXPECT_EQ(parse("click,age,site,tags,fee\n1,2,x,3,4\n").size(), 1U);
  // The header is checked even if bad records are left out, and by every trainer.
  options_.data.skip_bad_records = true;
  options_.num_trainers = 2;
  options_.trainer_id = 1;
  options_.share = {{folder_.write("other.csv", "click,site,age,tags,fee\n1,2,x,3,4\n")}, true};
  const Outcome outcome = read();
  ASSERT_FALSE(outcome.status);
  EXPECT_EQ(outcome.status.error().code, Errc::kUsage);
  EXPECT_NE(outcome.status.error().message.find("other.csv:1: the first line 'click,site,age"),
            std::string::npos);
}

TEST_F(FormatTest, TheHintOfABadRecordFitsItsPlace) {
  const std::string skip = "on_bad_record = \"skip\" leaves such records out and counts them";
  const std::string label =
      "an id, such as a label, must be a whole number (0 or 1); classes with names, or with "
      "numbers that do not start at 0, need labels = [\"no\", \"yes\"] in their slot; other texts "
      "need type = \"hash\"";
  use_csv();
  EXPECT_EQ(hint_of("click,age,site,tags,fee\n1,2,x,3,4\n"),
            "is line 1 a header? remove it, or set [data] header = true; " + label +
                "; or [data] " + skip);
  // A line of values is no header.
  EXPECT_EQ(hint_of("1,NA,x,3,4\n").find("header"), std::string::npos);
  EXPECT_NE(hint_of("\"Größe\",2,x,3,4\n").find("header"), std::string::npos);
  EXPECT_EQ(hint_of("1,2,x,3,4\nyes,2,x,3,4\n"), label + "; or [data] " + skip);
  EXPECT_EQ(hint_of("1,2,x,3,4\n1,2,x\n"), "[data] " + skip);
  use("libsvm");
  const std::string of_line(kLabelHint);
  EXPECT_EQ(hint_of("label features\n"),
            "is line 1 a header? remove it; " + of_line + "; or [data] " + skip);
  EXPECT_EQ(hint_of("1 3:1\nyes 3:1\n"), of_line + "; or [data] " + skip);
}

TEST_F(FormatTest, NumbersThatAreTooSmallAreZeroInEveryFormat) {
  use("libsvm");
  EXPECT_EQ(parse("1 1:1e-46 2:2.2250738585072014e-308 3:4.9e-324 4:1e-400 5:-1e-46\n"),
            (Records{"1|1:0 2:0 3:0 4:0 5:-0"}));
  EXPECT_EQ(parse("1 1:1e-40 2:1.17549435e-38\n"), (Records{"1|1:1e-40 2:1.1754944e-38"}));
  const std::string zeros(400, '0');
  EXPECT_EQ(parse("1 1:0." + zeros + "1 2:" + zeros + "1\n"), (Records{"1|1:0 2:1"}));
  for (const char* const large : {"3.5e38", "-1e39", "1e400", "-1e4000"}) {
    EXPECT_EQ(mistake(fmt::format("1 1:{}\n", large)),
              fmt::format("bad.txt:1: the value '{}' is not a finite number: a float32 has at most "
                          "3.4e38",
                          large));
  }
  use_multislot();
  EXPECT_EQ(parse("1 1 1 7 2 1e-46 1e-400 1 4\n"), (Records{"1|(0 0)|4"}));
  use_csv();
  EXPECT_EQ(parse("1,1e-46,x,,\"1e-400\"\n").at(0).substr(0, 7), "1|(0 0)");
  use_jsonl();
  EXPECT_EQ(
      parse(R"({"click": 1, "age": 1e-46, "numbers": [1e-400, 4.9e-324]})").at(0).substr(0, 11),
      "1|(0 0)|(0)");
}

TEST_F(FormatTest, WholeNumbersMayBeWrittenAsFloats) {
  use("libsvm");
  EXPECT_EQ(parse("1.0 1:26\n0.0 1.0:5\n+1.0 3:2\n+1 2:2\n"),
            (Records{"1|1:26", "0|1:5", "1|3:2", "1|2:2"}));
  EXPECT_EQ(parse("-1.0 1:1\n-1 2:2\n+1 2:2\n"), (Records{"0|1:1", "0|2:2", "1|2:2"}));
  EXPECT_EQ(parse("1.000000000000000000e+00 1:1\n2. 1:1\n-0.0 1:1\n1.2e1 1:1\n"),
            (Records{"1|1:1", "2|1:1", "0|1:1", "12|1:1"}));
  EXPECT_EQ(mistake("1.5 1:1\n"),
            "bad.txt:1: the label '1.5' is not a whole number from 0 to 2^64-1");
  EXPECT_EQ(mistake("-2 1:1\n"),
            "bad.txt:1: the label '-2' is not a whole number from 0 to 2^64-1");
  EXPECT_EQ(mistake("-1.5 1:1\n"),
            "bad.txt:1: the label '-1.5' is not a whole number from 0 to 2^64-1");
  // A hexadecimal id is no number with an exponent.
  EXPECT_EQ(mistake("1 7e2:1\n"),
            "bad.txt:1: the index '7e2' is not a whole number from 0 to 2^64-1");
  use_csv();
  EXPECT_EQ(parse("1.0,30,x,5.0|6,2\n").at(0).substr(0, 8), "1|(2 30)");
  use_multislot();
  EXPECT_EQ(parse("1 1.0 1 7 2 0 0 2 4.0 18446744073709551615.0\n"),
            (Records{"1|(0 0)|4 18446744073709551615"}));
  use("bow");
  EXPECT_EQ(parse("1.0\ta\n"), (Records{"2|1"}));
  use_jsonl();
  EXPECT_EQ(parse(R"({"click": 1.0, "seen": [2.0, 3]})").at(0),
            parse(R"({"click": 1, "seen": [2, 3]})").at(0));
}

TEST_F(FormatTest, BlanksAroundCsvFieldsAreNoPartOfThem) {
  use_csv();
  const auto plain = parse("1,77516,State-gov,5|6,0.5\n");
  EXPECT_EQ(parse("1, 77516, State-gov, 5|6, 0.5\n"), plain);
  EXPECT_EQ(parse(" 1 ,\t77516 ,State-gov\t, 5 | 6 ,0.5 \r\n"), plain);
  EXPECT_EQ(parse("1, \"77516\" , \"State-gov\", \" 5|6\",\" 0.5 \"\n"), plain);
  EXPECT_EQ(parse("1,2,x,,3\n   \n\t\n"), parse("1,2,x,,3\n"));
  EXPECT_EQ(parse("1, ,x,  ,\t\n"), parse("1,,x,,\n"));
  // In quotes they stay.
  EXPECT_NE(parse("1,77516,\" State-gov\",5|6,0.5\n"), plain);
  EXPECT_EQ(parse("1,77516, \" State-gov\" ,5|6,0.5\n"), parse("1,77516,\" State-gov\",5|6,0.5\n"));
  EXPECT_EQ(mistake("1,2, \"x\" y,4,5\n"), "bad.txt:1: text follows a closing quote");
  EXPECT_EQ(mistake("1, 7 7,x,4,5\n"), "bad.txt:1: column 'age': '7 7' is not a finite number");
  // A header may have them too.
  options_.data.has_header = true;
  EXPECT_EQ(parse("click, age, site,tags , \"fee\"\n1,77516,State-gov,5|6,0.5\n"), plain);
}

TEST_F(FormatTest, WithoutTrimTextsKeepTheirBlanksAndNumbersStillHaveNone) {
  use_csv();
  const auto plain = parse("1,77516,State-gov,5|6,0.5\n");
  options_.data.trim = false;
  EXPECT_EQ(parse("1 , 77516,State-gov, 5|6 , 0.5\n"), plain);
  EXPECT_NE(parse("1,77516, State-gov,5|6,0.5\n"), plain);
  EXPECT_EQ(parse("1,77516, State-gov,5|6,0.5\n"), parse("1,77516,\" State-gov\",5|6,0.5\n"));
  EXPECT_EQ(mistake("1,2, \"x\",4,5,6\n"), "bad.txt:1: 6 fields, not 5");
  EXPECT_EQ(mistake("   \n"), "bad.txt:1: 1 fields, not 5");
}

TEST_F(FormatTest, ADelimiterThatIsABlankIsNoBlank) {
  use_csv();
  options_.data.delimiter = '\t';
  EXPECT_EQ(parse("1\t 2\t\t\t3 \n").at(0).substr(0, 7), "1|(3 2)");
  EXPECT_EQ(mistake("\t\t\n"), "bad.txt:1: 3 fields, not 5");
  options_.data.delimiter = ' ';
  EXPECT_EQ(parse("1 \t2   3\n").at(0).substr(0, 7), "1|(3 2)");
}

TEST_F(FormatTest, MissingValuesAndForeignNumbersAreNamed) {
  use_csv();
  const std::string missing = "is not a finite number: it stands for a missing value";
  for (const char* const text : {"NA", "N/A", "?", "nan", "NaN", "null", "None", "<NA>"}) {
    EXPECT_EQ(mistake(fmt::format("1,{},x,4,5\n", text)),
              fmt::format("bad.txt:1: column 'age': '{}' {}", text, missing));
  }
  EXPECT_TRUE(
      hint_of("1,2,x,3,4\n1,NA,x,4,5\n").starts_with("missing = \"mean\", or a number, in "));
  EXPECT_EQ(
      mistake("NA,1,x,4,5\n"),
      "bad.txt:1: column 'click': 'NA' is not a whole number from 0 to 2^64-1: it stands for a "
      "missing value");
  const std::string commas = ": numbers are written with a point and without commas, as 1234.5";
  EXPECT_EQ(mistake("1,\"1,234\",x,4,5\n"),
            "bad.txt:1: column 'age': '1,234' is not a finite number" + commas);
  EXPECT_EQ(mistake("1,\"-7,8\",x,4,5\n"),
            "bad.txt:1: column 'age': '-7,8' is not a finite number" + commas);
  EXPECT_EQ(mistake("1,0x10,x,4,5\n"),
            "bad.txt:1: column 'age': '0x10' is not a finite number: it is hexadecimal");
  EXPECT_EQ(mistake("1,inf,x,4,5\n"), "bad.txt:1: column 'age': 'inf' is not a finite number");
}

TEST_F(FormatTest, UnseenCharactersInNumbersAreNamed) {
  use_csv();
  for (const auto& [text, reason] : std::vector<std::pair<std::string, std::string>>{
           {"\xc2\xa0"
            "5",
            ": it has a no-break space (U+00A0); sed 's/\\xc2\\xa0//g' OLD >NEW removes it"},
           {"5\xc2\xa0", ": it has a no-break space (U+00A0)"},
           {"1\xe2\x80\xaf"
            "234",
            ": it has a narrow no-break space (U+202F)"},
           {"\xe2\x80\x8b"
            "5",
            ": it has a zero-width space (U+200B)"},
           {"\xe2\x88\x92"
            "5",
            ": its minus is U+2212, not '-'"},
           {"5\x1a", ": it has ^Z, by which DOS ends a text"}}) {
    EXPECT_NE(mistake("1," + text + ",x,4,5\n").find("is not a finite number" + reason),
              std::string::npos)
        << mistake("1," + text + ",x,4,5\n");
    EXPECT_NE(mistake(text + ",1,x,4,5\n").find("2^64-1" + reason), std::string::npos) << text;
  }
  use("libsvm");
  EXPECT_NE(mistake("1 3:1\n\x1a").find("it has ^Z"), std::string::npos);
}

TEST_F(FormatTest, ALaterHeaderAndTheEndOfADosTextAreNamed) {
  use_csv();
  options_.data.has_header = true;
  const std::string head = "click,age,site,tags,fee\n";
  EXPECT_EQ(mistake(head + "1,2,x,4,5\n" + head),
            "bad.txt:3: column 'click': 'click' is not a whole number from 0 to 2^64-1: the line "
            "is a header");
  EXPECT_NE(hint_of(head + "1,2,x,4,5\n" + head).find("awk 'NR == 1 {head = $0} "),
            std::string::npos);
  EXPECT_EQ(mistake(head + "1,2,x,4,5\n\x1a"),
            "bad.txt:3: 1 fields, not 5: the line is ^Z, by which DOS ends a text");
  options_.data.has_header = false;
  EXPECT_TRUE(mistake("1,2,x,4,5\n" + head).ends_with(": the line is a header"));
}

TEST_F(FormatTest, BlankLinesBeforeAHeaderAreSkipped) {
  use_csv();
  options_.data.has_header = true;
  const std::string head = "click,age,site,tags,fee\n";
  const auto plain = parse(head + "1,2,x,4,5\n");
  EXPECT_EQ(plain.size(), 1U);
  EXPECT_EQ(parse("\n \t\r\n\n" + head + "\n1,2,x,4,5\n"), plain);
  const auto wrong = [this](const std::string& text) {
    options_.share.files = {folder_.write("bad.txt", text)};
    const Outcome outcome = read();
    return outcome.status ? "none" : outcome.status.error().message;
  };
  EXPECT_NE(wrong("\n\n1,2,x,4,5\n").find("bad.txt:3: the first line '1,2,x,4,5' does not name"),
            std::string::npos);
  EXPECT_NE(wrong("\n\n").find("the first line '' does not name"), std::string::npos);
  EXPECT_NE(wrong(std::string(2 * kChunkBytes, '\n') + head).find("does not name"),
            std::string::npos);
  EXPECT_TRUE(parse("").empty());
  options_.data.trim = false;
  EXPECT_NE(wrong("  \n" + head).find("bad.txt:1: the first line '  '"), std::string::npos);
}

TEST_F(FormatTest, SeveralBlanksBetweenFieldsAreNamed) {
  use_csv();
  options_.data.delimiter = ' ';
  for (const char* const line :
       {"1  2 x 4 5\n", " 1 2 x 4 5\n", "1 2 x 4 5 \n", "1   2 x  4 5\n"}) {
    EXPECT_NE(mistake(line).find("blanks are next to each other"), std::string::npos) << line;
    EXPECT_NE(hint_of(line).find("sed -E 's/ +/ /g; s/^ | $//g' OLD >NEW"), std::string::npos);
  }
  EXPECT_EQ(mistake("1 2 x 4\n"), "bad.txt:1: 4 fields, not 5");
  EXPECT_NE(mistake("1\t2\tx\t4\t5\n").find("separated by '\\t' there are 5"), std::string::npos);
}

TEST_F(FormatTest, FilesOfOtherProgramsAreNamedByTheirLines) {
  use("libsvm");
  EXPECT_EQ(
      mistake("1 0:3:1 1:5:0.5\n"),
      "bad.txt:1: the feature '0:3:1' is not index:value: it is field:index:value, as in files "
      "of libffm");
  EXPECT_EQ(mistake("1:0.5 3:1\n"),
            "bad.txt:1: the label '1:0.5' is not a number: it is index:value, so the label is "
            "missing, or has a weight as in XGBoost");
  EXPECT_EQ(
      mistake("1 | a b\n"),
      "bad.txt:1: the feature '|' is not index:value: the file has the format of Vowpal Wabbit");
  EXPECT_NE(hint_of("1 3:1\n5.1,3.5,0\n").find("format = \"csv\""), std::string::npos);
  EXPECT_NE(hint_of("1 3:1\n1 2 3\n").find("delimiter = \" \""), std::string::npos);
  use_csv();
  EXPECT_EQ(mistake("1;2;x;4;5\n"), "bad.txt:1: 1 fields, not 5; separated by ';' there are 5");
  EXPECT_NE(hint_of("1,2,x,4,5\n1\t2\tx\t4\t5\n").find("delimiter = \"\\t\""), std::string::npos);
  EXPECT_NE(hint_of("1,2,x,4,5\n2,x,4,5\n").find("any label"), std::string::npos);
  EXPECT_NE(hint_of("1,2,x,4,5\n1,2,x,4,5,\n").find("name one column more"), std::string::npos);
  use("bow");
  EXPECT_NE(hint_of("1\ta\na b\n").find("any one"), std::string::npos);
}

class LabelNamesTest : public FormatTest {
 protected:
  const std::vector<std::string> kNames{"setosa", "versicolor", "virginica"};
};

TEST_F(LabelNamesTest, ClassesAreNumberedInTheirOrder) {
  use_csv();
  options_.data.slots = {{.name = "site", .columns = {2}, .labels = kNames}};
  EXPECT_EQ(parse("1,2,virginica,4,5\n1,2, setosa ,4,5\n1,2,\"versicolor\",4,5\n"),
            (Records{"2", "0", "1"}));
  EXPECT_EQ(mistake("1,2,setosa,4,5\n1,2,virginca,4,5\n"),
            "bad.txt:2: column 'site': 'virginca' is not one of the labels setosa, versicolor, "
            "virginica");
  EXPECT_TRUE(
      hint_of("1,2,setosa,4,5\n1,2,virginca,4,5\n").starts_with("did you mean 'virginica'?"));
  options_.data.skip_bad_records = true;
  EXPECT_EQ(parse("1,2,setosa,4,5\n1,2,,4,5\n1,2,Setosa,4,5\n"), (Records{"0"}));
  options_.data.skip_bad_records = false;
  for (int i = 0; i < 1000; ++i) options_.data.slots[0].labels.push_back(fmt::format("k{}", i));
  EXPECT_TRUE(hint_of("1,2,virginca,4,5\n").starts_with("all of them are in the slot's key"))
      << "an unknown name is not compared with thousands";
  EXPECT_EQ(mistake("1,2,virginca,4,5\n"),
            "bad.txt:1: column 'site': 'virginca' is not one of the labels setosa, versicolor, "
            "virginica, k0, k1, k2, k3, k4, k5, k6, ...");
  use_jsonl();
  options_.data.slots = {{.name = "kind", .labels = kNames},
                         {.name = "tags", .type = SlotType::kIds, .labels = {"a", "b"}}};
  EXPECT_EQ(parse(R"({"kind": "versicolor", "tags": ["b", "a"]})"), (Records{"1|1 0"}));
  EXPECT_EQ(mistake(R"({"kind": 1})"),
            "bad.txt:1: 'kind': '1' is not one of the labels setosa, versicolor, virginica");
  EXPECT_EQ(mistake("{}"), "bad.txt:1: 'kind' is missing");
  use_multislot();
  options_.data.slots = {{.name = "kind", .labels = kNames}};
  EXPECT_EQ(parse("1 virginica\n"), (Records{"2"}));
  for (const char* const format : {"bow", "libsvm"}) {
    use(format);
    options_.data.labels = kNames;
    const std::string rest = format == std::string("bow") ? "\ta\n" : " 1:2\n";
    EXPECT_EQ(parse("versicolor" + rest).size(), 1U);
    EXPECT_NE(parse("versicolor" + rest).at(0).find('1'), std::string::npos);
    EXPECT_EQ(mistake("none" + rest),
              "bad.txt:1: the label 'none' is not one of the labels setosa, versicolor, virginica");
  }
}

TEST_F(LabelNamesTest, NumbersAreFoundHoweverTheyAreWritten) {
  use("libsvm");
  options_.data.labels = {"1", "2", "3"};
  EXPECT_EQ(parse("1 1:1\n3.0 1:1\n+2 1:1\n2.000e+00 1:1\n"),
            (Records{"0|1:1", "2|1:1", "1|1:1", "1|1:1"}));
  EXPECT_EQ(mistake("0 1:1\n"), "bad.txt:1: the label '0' is not one of the labels 1, 2, 3");
  options_.data.labels = {"-1", "1"};
  EXPECT_EQ(parse("-1.0 1:1\n+1 1:1\n"), (Records{"0|1:1", "1|1:1"}));
  use_jsonl();
  options_.data.slots = {{.name = "y", .labels = {"1", "true"}}};
  EXPECT_EQ(parse("{\"y\": 1.0}\n{\"y\": true}\n{\"y\": \"1\"}\n"), (Records{"0", "1", "0"}));
}

TEST_F(FormatTest, TabSeparatedRatings) {
  use("csv");
  options_.data.delimiter = '\t';
  options_.data.columns = {"user", "item", "rating", "time"};
  options_.data.slots = {{.name = "user", .columns = {0}},
                         {.name = "item", .columns = {1}},
                         {.name = "rating", .type = SlotType::kFloat, .columns = {2}}};
  EXPECT_EQ(parse("196\t242\t3\t881250949\n"), Records{"196|242|(3)"});
}

TEST_F(FormatTest, CriteoLines) {
  use("criteo");
  std::string line = "1\t1\t-1\t\t0\t9223372036854775807\t2\t3\t4\t5\t6\t7\t8\t99";
  std::string ids;
  for (int i = 1; i <= 26; ++i) {
    const std::string value = i == 2 ? "" : "68fd1e64";
    line += "\t" + value;
    ids += fmt::format("|{}", SlotHash(fmt::format("C{}", i), 0)(value));
  }
  std::string numbers;
  for (const double x : {1.0, 0.0, 0.0, 0.0, 0x1p63, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 99.0}) {
    numbers += fmt::format("{}{}", numbers.empty() ? "" : " ", static_cast<float>(std::log1p(x)));
  }
  EXPECT_EQ(parse(line + "\n"), Records{fmt::format("1|({}){}", numbers, ids)});
  options_.data.buckets = 1000;
  options_.data.float_label = true;
  const std::string folded = parse(line + "\n")[0];
  EXPECT_TRUE(folded.starts_with("(1)|(")) << folded;
  EXPECT_TRUE(folded.ends_with(fmt::format("|{}", SlotHash("C26", 1000)("68fd1e64")))) << folded;
  EXPECT_EQ(mistake(line + "\tx\n"), "bad.txt:1: 41 fields, not 40");
  EXPECT_EQ(mistake(line.substr(2) + "\n"),
            "bad.txt:1: 39 fields, not 40: the label is missing, as in the challenge's test.txt");
  EXPECT_EQ(mistake("1\t1.5" + line.substr(3)), "bad.txt:1: I1 '1.5' is not a whole number");
  // As pandas writes a column of whole numbers in which some are missing.
  EXPECT_EQ(parse("1.0\t1.0\t-1.0" + line.substr(6) + "\n"), Records{folded});
  EXPECT_EQ(parse("+1\t+1\t-1" + line.substr(6) + "\n"), Records{folded});
  EXPECT_EQ(mistake("1\t9223372036854775808" + line.substr(3)),
            "bad.txt:1: I1 '9223372036854775808' is not a whole number");
}

// These ids must not change, because snapshots hold their rows.
TEST(SlotHash, IsStable) {
  EXPECT_EQ(SlotHash("C1", 0)("68fd1e64"), 3530856265371412134U);
  EXPECT_EQ(SlotHash("C1", 0)(""), 7689311482502403525U);
  EXPECT_LT(SlotHash("C1", 10)("68fd1e64"), 10U);
}

TEST(Logarithm, AgreesWithTheLibrary) {
  Rng rng(1);
  for (int i = 0; i < 100000; ++i) {
    const std::uint64_t x = std::max<std::uint64_t>(1, rng.next() >> rng.below(64));
    const double expected = std::log(static_cast<double>(x));
    ASSERT_NEAR(logarithm(x), expected, 1e-7 * expected) << x;
  }
  EXPECT_EQ(logarithm(1), 0.0F);
}

TEST_F(FormatTest, ShortLinesAndEmptyFilesOfEachFormat) {
  const auto check = [&] {
    EXPECT_TRUE(parse("").empty()) << options_.data.format;
    EXPECT_TRUE(parse("\n\r\n\n").empty()) << options_.data.format;
    if (options_.data.format == "ngram") return;
    EXPECT_TRUE(mistake("?").starts_with("bad.txt:1: ")) << options_.data.format;
    EXPECT_TRUE(mistake(std::string("\0", 1)).starts_with("bad.txt:1: ")) << options_.data.format;
  };
  in_each_format(check);
}

TEST_F(FormatTest, ALineThatIsTooLongIsOneBadRecord) {
  const std::string longest = "1\t" + std::string(kLineBytesMax - 2, 'x');
  EXPECT_EQ(parse(longest + "\n2\ta\n" + longest), (Records{"5|1", "2|2", "5|1"}));
  for (const std::size_t more : {std::size_t{1}, std::size_t{600000}}) {
    const std::string text = "1\ta\n" + longest + std::string(more, 'x') + "\n2\tb\n";
    EXPECT_EQ(mistake(text), "bad.txt:2: a line has over 16777216 bytes");
    options_.data.skip_bad_records = true;
    EXPECT_EQ(parse(text), (Records{"2|1", "3|2"}));
    EXPECT_EQ(read().bad_records, 1U);
    EXPECT_EQ(parse(longest + std::string(more, 'x')), Records{});
    options_.data.skip_bad_records = false;
  }
}

TEST_F(FormatTest, AnyBytesAreRecordsOrBadRecords) {
  Rng rng(7);
  const auto check = [&] {
    constexpr std::string_view kLikely = " \t\n\r,|:\"#-+.0123456789e\0x{}[]";
    for (int round = 0; round < 40; ++round) {
      std::string text;
      for (std::uint64_t i = rng.below(4000); i > 0; --i) {
        text += rng.below(8) == 0 ? static_cast<char>(rng.below(256))
                                  : kLikely[rng.below(kLikely.size())];
      }
      options_.data.skip_bad_records = true;
      parse(text);
    }
  };
  in_each_format(check);
}

}  // namespace
}  // namespace paddle::data
