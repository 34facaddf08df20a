#include "engine/data/number_notes.h"

#include "base/rng.h"
#include "engine/data/format.h"
#include "engine/data/preparation.h"
#include "tests/unit/engine/data/data_fixture.h"

namespace paddle::data {
namespace {

class NumberNotesTest : public testing::Test {
 protected:
  NumberNotesTest() {
    data_.format = "csv";
    data_.columns = {"age", "income", "tenure", "label"};
    data_.slots = {
        {.name = "x", .type = config::SlotType::kFloat, .width = 3, .columns = {0, 1, 2}},
        {.name = "label", .type = config::SlotType::kFloat, .columns = {3}}};
  }
  std::vector<std::string> notes_of(const std::string& text, std::vector<nn::SlotRule> rules = {}) {
    const auto format = make_format(data_, dictionary_);
    Preparation preparation(data_);
    RecordBlock block;
    for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
      const Status parsed =
          format->parse(std::string_view(text).substr(at, text.find('\n', at) - at), block);
      EXPECT_TRUE(parsed) << parsed.error().message;
      EXPECT_TRUE(preparation.prepare(block.records.size() - 1, block));
    }
    NumberNotes notes(data_, rules);
    notes.add(block);
    return notes.warnings();
  }

  config::DataConfig data_;
  Dictionary dictionary_;
};

const nn::SlotRule kLabel{.layer = "cost", .slot_name = "label", .slot = 1, .is_label = true};

TEST_F(NumberNotesTest, ColumnsOfUnlikeSizesAreNamed) {
  const auto notes = notes_of("40,30000,5,1\n-60,28000,1,0\n", {kLabel});
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_TRUE(notes[0].starts_with("the numbers of income (about 29000) are large: ")) << notes[0];
  EXPECT_NE(notes[0].find("normalize = \"standard\""), std::string::npos);
  EXPECT_TRUE(notes_of("40,300,50,1\n60,200,1,0\n", {kLabel}).empty());
  EXPECT_TRUE(notes_of("0.1,0.001,5,1\n", {kLabel}).empty());
  // Large beside small ones, though not by itself.
  EXPECT_EQ(notes_of("1,300,2,1\n", {kLabel}).size(), 1U);
  EXPECT_NE(
      notes_of("5000,300000,20000,1\n", {kLabel}).at(0).find("age (about 5000), income (about"),
      std::string::npos);
}

TEST_F(NumberNotesTest, ALabelMayBeLarge) {
  EXPECT_TRUE(notes_of("1,2,3,250000\n", {kLabel}).empty());
  EXPECT_EQ(notes_of("1,2,3,250000\n").size(), 1U);
}

TEST_F(NumberNotesTest, EmptyFieldsAreCountedByColumn) {
  const auto notes = notes_of("1,,3,1\n,,3,1\n1, ,3,\n", {kLabel});
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_TRUE(
      notes[0].starts_with("empty fields were read as 0, in the first 3 records those of age "
                           "(1), income (3), label (1); "))
      << notes[0];
  EXPECT_NE(notes[0].find("missing = \"mean\""), std::string::npos);
  EXPECT_TRUE(notes_of("1,2,3,1\n").empty());
  EXPECT_TRUE(notes_of("").empty());
}

TEST_F(NumberNotesTest, PreparedSlotsAreLeftOut) {
  data_.slots[0].normalize = config::Normalize::kLog;
  data_.slots[0].fits.resize(3);
  EXPECT_TRUE(notes_of("1,300000,2,1\n", {kLabel}).empty());
  EXPECT_EQ(notes_of("1,,2,1\n", {kLabel}).size(), 1U) << "it is read as 0 all the same";
  data_.slots[0].missing = config::Missing::kMean;
  EXPECT_TRUE(notes_of("1,,2,1\n", {kLabel}).empty());
  // A slot behind a prepared one with indicators is still at its place.
  data_.slots[0].missing_indicator = true;
  data_.columns.emplace_back("fee");
  data_.slots.push_back({.name = "fee", .type = config::SlotType::kFloat, .columns = {4}});
  const auto notes = notes_of("1,2,3,1,5000\n", {kLabel});
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_TRUE(notes[0].starts_with("the numbers of fee (about 5000) are large")) << notes[0];
}

TEST_F(NumberNotesTest, SlotsOfOtherFormatsHaveNumbersForNames) {
  data_ = {};
  data_.format = "jsonl";
  data_.slots = {{.name = "y"},
                 {.name = "x", .type = config::SlotType::kFloat, .width = 2},
                 {.name = "z", .type = config::SlotType::kFloat}};
  const auto notes = notes_of("{\"y\": 1, \"x\": [1, 5000], \"z\": null}\n{\"y\": 1}\n");
  ASSERT_EQ(notes.size(), 2U);
  EXPECT_TRUE(notes[0].starts_with("the numbers of x[1] (about 2500) are large")) << notes[0];
  EXPECT_NE(notes[1].find("those of x (1), z (2);"), std::string::npos) << notes[1];
  data_ = {};
  data_.format = "libsvm";
  EXPECT_TRUE(notes_of("1 1:90000 2:1\n").empty());
}

TEST_F(NumberNotesTest, ManyColumnsAreCutShort) {
  data_.columns.clear();
  data_.slots = {{.name = "x", .type = config::SlotType::kFloat, .width = 9}};
  std::string line;
  for (int i = 0; i < 9; ++i) {
    data_.columns.push_back(fmt::format("c{}", i));
    data_.slots[0].columns.push_back(static_cast<std::uint32_t>(i));
    line += i == 0 ? "" : ",";
  }
  const auto notes = notes_of(line + "\n");
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].find("c0 (1), c1 (1), c2 (1), c3 (1), c4 (1) and 4 more;"), std::string::npos);
}

}  // namespace
}  // namespace paddle::data
