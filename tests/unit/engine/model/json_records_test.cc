#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/data/format.h"
#include "engine/model/json_requests.h"
#include "tests/support/temporary_folder.h"

namespace paddle::serve {
namespace {

using config::DataSlotConfig;
using config::SlotType;

class JsonRecordsTest : public testing::Test {
 protected:
  // A csv job whose layers read all but the label.
  JsonRecordsTest() {
    job_.data.format = "csv";
    job_.data.columns = {"label", "age", "size", "height", "town", "tags"};
    job_.data.slots = {
        DataSlotConfig{.name = "label", .columns = {0}},
        DataSlotConfig{.name = "age", .columns = {1}},
        DataSlotConfig{.name = "body", .type = SlotType::kFloat, .width = 2, .columns = {2, 3}},
        DataSlotConfig{.name = "town", .type = SlotType::kHash, .columns = {4}},
        DataSlotConfig{.name = "tags", .type = SlotType::kHash, .columns = {5}, .separator = ' '}};
    config::LayerConfig layer{};
    layer.inputs = {"age", "body", "town", "tags"};
    layer.label = "label";
    job_.layers = {layer};
  }

  std::string mistake(std::string_view line) {
    const Status parsed = JsonRecords(job_, dictionary_).parse(line, block_);
    return parsed ? "none" : parsed.error().message;
  }

  config::JobConfig job_;
  data::Dictionary dictionary_;
  data::RecordBlock block_;
};

TEST_F(JsonRecordsTest, AreThoseOfTheFormat) {
  EXPECT_EQ(mistake(R"({"label":1,"age":33,"body":[1.5,-2],"town":"Rome","tags":["a","b"]})"),
            "none");
  const auto csv = data::make_csv(job_.data, dictionary_);
  ASSERT_TRUE(csv->parse("1,33,1.5,-2,Rome,a b", block_));
  ASSERT_EQ(block_.records.size(), 2U);
  const data::RecordView json = block_.view(block_.records[0]),
                         text = block_.view(block_.records[1]);
  EXPECT_TRUE(std::ranges::equal(json.ids, text.ids));
  EXPECT_TRUE(std::ranges::equal(json.values, text.values));
  EXPECT_TRUE(std::ranges::equal(json.counts, text.counts));
  EXPECT_EQ(json.ids.size(), 5U);

  EXPECT_EQ(mistake(R"({"age":18446744073709551615,"body":[1,2],"town":"","tags":[]})"), "none");
  const data::RecordView other = block_.view(block_.records[2]);
  EXPECT_EQ(other.ids[1], ~0ULL);
  EXPECT_EQ(other.ids.size(), 3U);
  EXPECT_EQ(other.counts[0], 0U);
}

// Numbers in a column of texts, and fields without a value, are those of the same line of a file.
TEST_F(JsonRecordsTest, TakeNumbersAndNullsAsFilesDo) {
  ASSERT_EQ(mistake(R"({"label":null,"age":33,"body":null,"town":8001,"tags":[7,1.50]})"), "none");
  ASSERT_EQ(mistake(R"({"label":1,"age":true,"size":null,"height":2,"town":null,"tags":null})"),
            "none");
  const auto csv = data::make_csv(job_.data, dictionary_);
  ASSERT_TRUE(csv->parse("0,33,,,8001,7 1.50", block_));
  ASSERT_TRUE(csv->parse("1,1,,2,,", block_));
  for (std::size_t i = 0; i < 2; ++i) {
    const data::RecordView json = block_.view(block_.records[i]);
    const data::RecordView text = block_.view(block_.records[i + 2]);
    EXPECT_TRUE(std::ranges::equal(json.ids, text.ids)) << i;
    EXPECT_TRUE(std::ranges::equal(json.values, text.values)) << i;
    EXPECT_TRUE(std::ranges::equal(json.counts, text.counts)) << i;
  }
  // Files write True, t or 1.
  EXPECT_EQ(mistake(R"({"age":33,"body":[1,2],"town":true,"tags":[]})"), "'town' must be a string");
}

// A slot that marks missing numbers takes records without them, and the record is not prepared.
TEST_F(JsonRecordsTest, MarkMissingNumbersAsFilesDo) {
  job_.data.slots[2].missing = config::Missing::kMean;
  job_.data.slots[2].normalize = config::Normalize::kStandard;
  job_.data.slots[2].fits.resize(2);
  const std::string rest = R"("age":33,"town":"Rome","tags":[])";
  for (const std::string body :
       {"", R"(,"body":null)", R"(,"body":[null,"NA"])", R"(,"size":null)", R"(,"height":"")"}) {
    block_.clear();
    ASSERT_EQ(mistake("{" + rest + body + "}"), "none") << body;
    const auto values = block_.view(block_.records[0]).values;
    ASSERT_EQ(values.size(), 2U);
    EXPECT_TRUE(std::isnan(values[0]) && std::isnan(values[1])) << body;
  }
  block_.clear();
  ASSERT_EQ(mistake("{" + rest + R"(,"height":7})"), "none");
  EXPECT_TRUE(std::isnan(block_.values[0]));
  EXPECT_EQ(block_.values[1], 7);
  job_.data.slots[2].missing = config::Missing::kRefuse;
  EXPECT_EQ(mistake("{" + rest + "}"), "'body' is missing");
}

// Another slot may have some of the columns, too, and no layer may read it.
TEST_F(JsonRecordsTest, ColumnsOfASlotThatNoLayerReadsMayBeMissing) {
  job_.data.slots.push_back(
      DataSlotConfig{.name = "unread", .type = SlotType::kFloat, .width = 2, .columns = {2, 3}});
  job_.data.slots[2].missing = config::Missing::kMean;
  job_.data.slots[2].fits.resize(2);
  ASSERT_EQ(mistake(R"({"age":33,"town":"Rome","tags":[],"height":7})"), "none");
  const auto values = block_.view(block_.records[0]).values;
  ASSERT_EQ(values.size(), 4U);
  EXPECT_TRUE(std::isnan(values[0]));
  EXPECT_EQ(values[1], 7);
  EXPECT_EQ(values[2], 0);
}

TEST_F(JsonRecordsTest, TakeAListWhereAColumnHasASeparator) {
  job_.data.slots.back().name = "words";
  job_.layers.front().inputs.back() = "words";
  const std::string rest = R"("age":33,"body":[1.5,-2],"town":"Rome",)";
  ASSERT_EQ(mistake("{" + rest + R"("words":["a","b"]})"), "none");
  ASSERT_EQ(mistake("{" + rest + R"("tags":["a","b"]})"), "none");
  ASSERT_EQ(mistake("{" + rest + R"("tags":null})"), "none");
  EXPECT_TRUE(
      std::ranges::equal(block_.view(block_.records[0]).ids, block_.view(block_.records[1]).ids));
  EXPECT_EQ(block_.view(block_.records[2]).counts[0], 0U);
  ASSERT_EQ(mistake("{" + rest + R"("tags":"a"})"), "none");
  ASSERT_EQ(mistake("{" + rest + R"("tags":["a"]})"), "none");
  EXPECT_TRUE(
      std::ranges::equal(block_.view(block_.records[3]).ids, block_.view(block_.records[4]).ids));
  ASSERT_EQ(mistake("{" + rest + R"("tags":"a b"})"), "none");
  EXPECT_TRUE(
      std::ranges::equal(block_.view(block_.records[0]).ids, block_.view(block_.records[5]).ids));
  EXPECT_EQ(mistake("{" + rest + R"("tags":{"a":1}})"), "'tags' must be a list");
}

TEST_F(JsonRecordsTest, AreThoseOfJsonLines) {
  job_.data.format = "jsonl";
  job_.data.columns.clear();
  job_.data.slots = {DataSlotConfig{.name = "label"},
                     DataSlotConfig{.name = "age", .type = SlotType::kFloat},
                     DataSlotConfig{.name = "town", .type = SlotType::kHash},
                     DataSlotConfig{.name = "tags", .type = SlotType::kHashes}};
  job_.layers.front().inputs = {"age", "town", "tags"};
  const auto jsonl = data::make_jsonl(job_.data, dictionary_);
  for (const char* const line :
       {R"({"label":1,"age":1.5,"town":"x","tags":["a","b"]})",
        R"({"label":true,"age":true,"town":5,"tags":[1.50,7,false,null]})",
        R"({"label":0,"age":null,"town":-5.0,"tags":null})", R"({"label":0})",
        R"({"label":0,"town":true,"tags":[]})", R"({"label":0,"town":null,"tags":["5",5]})"}) {
    block_.clear();
    ASSERT_EQ(mistake(line), "none") << line;
    ASSERT_TRUE(jsonl->parse(line, block_)) << line;
    const data::RecordView served = block_.view(block_.records[0]);
    const data::RecordView read = block_.view(block_.records[1]);
    EXPECT_TRUE(std::ranges::equal(served.ids, read.ids)) << line;
    EXPECT_TRUE(std::ranges::equal(served.values, read.values)) << line;
    EXPECT_TRUE(std::ranges::equal(served.counts, read.counts)) << line;
  }
}

TEST_F(JsonRecordsTest, MayNameTheColumnsOfCsv) {
  job_.data.columns = {"label", "age", "size", "height", "town", "tags", "one", "two", "row"};
  job_.data.slots.push_back(
      DataSlotConfig{.name = "pair", .type = SlotType::kHash, .columns = {6, 7}});
  job_.layers.front().inputs.emplace_back("pair");
  ASSERT_EQ(mistake(R"({"age":33,"body":[1.5,-2],"town":"Rome","tags":["a"],"pair":["x","y"]})"),
            "none");
  const data::RecordBlock slots = block_;
  for (const char* const columns :
       {R"({"age":33,"size":1.5,"height":-2,"town":"Rome","tags":["a"],"one":"x","two":"y"})",
        R"({"two":"y","height":-2,"row":7,"label":1,"tags":["a"],"size":1.5,"town":"Rome",)"
        R"("age":33,"one":"x"})",
        R"({"age":33,"body":[1.5,-2],"town":"Rome","tags":["a"],"one":"x","two":"y"})"}) {
    block_.clear();
    ASSERT_EQ(mistake(columns), "none") << columns;
    EXPECT_EQ(block_.values, slots.values) << columns;
    EXPECT_EQ(block_.counts, slots.counts) << columns;
    EXPECT_TRUE(
        std::ranges::equal(std::span(block_.ids).subspan(1), std::span(slots.ids).subspan(1)))
        << columns;
  }
  const std::string rest = R"("age":33,"town":"Rome","tags":["a"],"pair":["x","y"]})";
  EXPECT_EQ(mistake("{" + rest), "'body' is missing");
  EXPECT_EQ(mistake("{\"size\":1," + rest), "'height' is missing");
  EXPECT_EQ(mistake("{\"size\":1,\"height\":\"2\"," + rest), "'height' must be a number");
  EXPECT_EQ(mistake("{\"size\":1,\"body\":[1,2]," + rest),
            "both 'body' and its column 'size' are given");
}

TEST_F(JsonRecordsTest, SayWhatTheyMiss) {
  EXPECT_TRUE(mistake("[]").starts_with("it is not a JSON object: write one object per line"));
  EXPECT_TRUE(mistake(R"({"age":1)")
                  .starts_with("it is not a JSON object: the line ends within the object"));
  EXPECT_EQ(mistake(std::string(100'000, '[')), "it is nested more than 64 deep");
  EXPECT_EQ(mistake(R"({"label":1})"), "'age' is missing");
  EXPECT_EQ(mistake(R"({"age":-1})"), "'age' must be a whole number from 0 to 2^64-1, not -1");
  EXPECT_EQ(mistake(R"({"age":1.5})"), "'age' must be a whole number from 0 to 2^64-1, not 1.5");
  EXPECT_EQ(mistake(R"({"age":"x"})"), "'age' must be a whole number from 0 to 2^64-1, not \"x\"");
  EXPECT_EQ(mistake(R"({"age":1,"body":[1]})"), "'body' must be a list of 2 numbers");
  EXPECT_EQ(mistake(R"({"age":1,"body":[1,1e39]})"),
            "'body' has 1e39, but a float32 has at most 3.4e38");
  EXPECT_EQ(mistake(R"({"age":1,"body":[1,2],"town":[]})"), "'town' must be a string");
  EXPECT_EQ(mistake(R"({"age":1,"body":[1,2],"town":"x","tags":{"a":1}})"),
            "'tags' must be a list");
  EXPECT_EQ(mistake(R"({"age":1,"body":[1,2],"town":"x","tags":[],"tgs":1})"),
            "unknown slot 'tgs'");
}

// The text of a field with separators has the ids of the same field in a file.
TEST_F(JsonRecordsTest, SplitATextLikeAField) {
  job_.data.slots[1].separator = ';';
  job_.data.columns.emplace_back("kinds");
  job_.data.slots.push_back(
      DataSlotConfig{.name = "kinds", .columns = {6}, .separator = ';', .labels = {"no", "yes"}});
  job_.layers[0].inputs.emplace_back("kinds");
  const auto csv = data::make_csv(job_.data, dictionary_);
  for (const auto& [age, tags, kinds] :
       std::vector<std::array<std::string, 3>>{{"1", "a", "yes"},
                                               {"3; 7", "a b  c", "yes;no"},
                                               {"", "", ""},
                                               {" 5;6 ", " a ", "no ;yes"}}) {
    block_.clear();
    ASSERT_EQ(
        mistake(fmt::format(R"({{"age":"{}","body":[1,2],"town":"x","tags":"{}","kinds":"{}"}})",
                            age, tags, kinds)),
        "none");
    ASSERT_TRUE(csv->parse(fmt::format("0,{},1,2,x,{},{}", age, tags, kinds), block_));
    const data::RecordView json = block_.view(block_.records[0]);
    const data::RecordView text = block_.view(block_.records[1]);
    EXPECT_TRUE(std::ranges::equal(json.ids, text.ids)) << age;
    EXPECT_TRUE(std::ranges::equal(json.counts, text.counts)) << age;
  }
  EXPECT_EQ(mistake(R"({"age":"1;x","body":[1,2],"town":"x","tags":[],"kinds":[]})").substr(0, 10),
            "'age': 'x'");
}

TEST_F(JsonRecordsTest, ALabelIsNotNull) {
  job_.data.slots[1].labels = {"young", "old"};
  for (const char* const value : {"null", "[]", "{}"}) {
    EXPECT_EQ(mistake(fmt::format(R"({{"age":{},"body":[1,2],"town":"x","tags":[]}})", value)),
              "'age' must be one of the slot's labels");
  }
}

TEST_F(JsonRecordsTest, OfJsonLinesMayHaveOtherKeys) {
  job_.data = {};
  job_.data.format = "jsonl";
  job_.data.slots = {DataSlotConfig{.name = "age"}};
  EXPECT_EQ(mistake(R"({"id":"u-17","age":5,"more":{"age":6}})"), "none");
  EXPECT_EQ(block_.ids, std::vector<std::uint64_t>{5});
}

TEST_F(JsonRecordsTest, AreTakenWhateverTheirOrderAndSpelling) {
  const std::string rest = R"("body":[1,2],"town":"x","tags":["a"])";
  ASSERT_EQ(mistake(R"({"age":5,)" + rest + "}"), "none");
  const data::RecordBlock first = block_;
  const std::vector<std::string> others{
      R"({"tags":["a"],"town":"x","body":[1,2],"age":5})", R"({"age":4,"age":5,)" + rest + "}",
      R"({"\u0061ge":5,)" + rest + "}", R"({"age":5,"body":[1,2],"town":"\u0078","tags":["a"]})",
      R"({"age":5,"body":[1e0,2.0],"town":"x","tags":["\u0061"]})"};
  for (const std::string& same : others) {
    block_.clear();
    EXPECT_EQ(mistake(same), "none") << same;
    EXPECT_EQ(block_.ids, first.ids) << same;
    EXPECT_EQ(block_.values, first.values) << same;
    EXPECT_EQ(block_.counts, first.counts) << same;
  }
  for (const char* empty : {"null", "{}", "[]"}) {
    const std::string line = R"({"age":5,"body":[1,2],"town":"x","tags":)";
    EXPECT_EQ(mistake(line + empty + "}"), "none") << empty;
  }
  for (const auto& [wrong, shown] : std::vector<std::pair<std::string, std::string>>{
           {"1e2", "1e2: write it without an exponent"},
           {"-1.0", "-1.0"},
           {"1.5", "1.5"},
           {"null", "null"},
           {"[1]", "a list"},
           {"\"5\"", "\"5\": write it without quotes"},
           {"18446744073709551616", "18446744073709551616"}}) {
    EXPECT_EQ(mistake(fmt::format(R"({{"age":{},{}}})", wrong, rest)),
              "'age' must be a whole number from 0 to 2^64-1, not " + shown);
  }
  for (const char* wrong : {"1", "true", R"({"a":1})"}) {
    EXPECT_EQ(mistake(fmt::format(R"({{"age":5,"body":[1,2],"town":"x","tags":{}}})", wrong)),
              "'tags' must be a list");
  }
  // The first of the names that are none of slots.
  EXPECT_EQ(mistake(R"({"b":1,"a":{"age":1},"c":1,"age":5,)" + rest + "}"), "unknown slot 'b'");
  EXPECT_EQ(mistake(R"({"a\n":1,"b":1,"age":5,)" + rest + "}"), "unknown slot 'a\\x0a'");
  EXPECT_EQ(mistake(R"({"b":1,"age":-5,)" + rest + "}"),
            "'age' must be a whole number from 0 to 2^64-1, not -5");
  EXPECT_EQ(mistake(""), "it is not a JSON object");
  EXPECT_EQ(
      mistake(R"({"age":5,)" + rest + "}x"),
      "it is not a JSON object: the line continues after the object; write one object per line");
}

TEST_F(JsonRecordsTest, OfWeightedIdsAreFoldedLikeThoseOfFiles) {
  job_.data = {};
  job_.data.format = "libsvm";
  job_.data.buckets = 10;
  job_.layers.front().inputs = {"features"};
  EXPECT_EQ(mistake(R"({"features":[[3,0.5],[12,-1]]})"), "none");
  const auto libsvm = data::make_libsvm(job_.data, dictionary_);
  ASSERT_TRUE(libsvm->parse("0 3:0.5 12:-1", block_));
  const data::RecordView json = block_.view(block_.records[0]),
                         text = block_.view(block_.records[1]);
  EXPECT_TRUE(std::ranges::equal(json.ids, text.ids));
  EXPECT_TRUE(std::ranges::equal(json.values, text.values));
  for (const char* wrong :
       {"[3]", "[[3]]", "[[3,1,2]]", "[[3,true]]", R"([[3,"1"]])", "[[3,[1]]]"}) {
    EXPECT_EQ(mistake(fmt::format(R"({{"features":{}}})", wrong)),
              "'features' must be a list of [id, value]");
  }
  EXPECT_EQ(mistake(R"({"features":[[[3],1]]})"),
            "'features' must be a whole number from 0 to 2^64-1, not a list");
  EXPECT_EQ(mistake(R"({"features":[[3,1e39]]})"), "'features' must be of finite values");
}

TEST(RowRequestTest, HasAParameterAndIds) {
  const data::Dictionary none;
  const auto request =
      parse_row_request(R"({"ids":[3,18446744073709551615],"parameter":"t"})", none);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->parameter, "t");
  EXPECT_EQ(request->ids, (std::vector<std::uint64_t>{3, ~0ULL}));
  for (const char* wrong : {"", "[]", R"({"ids":[-1]})", R"({"ids":[1.5]})", R"({"ids":1})",
                            R"({"id":[1]})", R"({"words":["a"]})", R"({"parameter":3})"})
    EXPECT_FALSE(parse_row_request(wrong, none)) << wrong;
}

TEST(RowRequestTest, SaysWhatEachKeyMustBe) {
  const test::TemporaryFolder folder;
  folder.write("words", "in\n<unk>\n");
  const auto words = data::Dictionary::read(folder / "words");
  ASSERT_TRUE(words);
  const data::Dictionary none;
  const auto mistake = [](const std::string& text, const data::Dictionary& dictionary) {
    const auto request = parse_row_request(text, dictionary);
    if (request) return std::string("none");
    EXPECT_EQ(request.error().code, Errc::kData);
    EXPECT_NE(request.error().hint.find("for example {\"parameter\":"), std::string::npos) << text;
    return request.error().message;
  };
  for (const char* const value : {"1", "\"3\"", "null", "true", "{}", "[\"a\"]", "[[1]]", "[-1]"}) {
    EXPECT_EQ(mistake(fmt::format(R"({{"ids":{}}})", value), none),
              "'ids' must be a list of whole numbers from 0")
        << value;
  }
  for (const char* const value : {"\"in\"", "1", "null", "[1]", "{}"}) {
    EXPECT_EQ(mistake(fmt::format(R"({{"words":{}}})", value), *words),
              "'words' must be a list of words")
        << value;
  }
  EXPECT_EQ(mistake(R"({"words":"in"})", none), "'words' is not expected") << "no dictionary";
  EXPECT_EQ(mistake(R"({"parameter":3,"ids":[1]})", none),
            "'parameter' must be the name of a table");
  EXPECT_EQ(mistake(R"({"id":[3]})", none), "'id' is not expected");
}

}  // namespace
}  // namespace paddle::serve
