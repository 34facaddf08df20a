// Tests of records that do not fit the network: they are bad records, with their file and line.
#include "engine/data/record_rules.h"

#include "engine/data/pass_index.h"
#include "tests/unit/engine/data/data_fixture.h"

namespace paddle::data {
namespace {

using Records = std::vector<std::string>;

class RecordRulesTest : public DataTest {
 protected:
  RecordRulesTest() {
    options_.data.format = "csv";
    options_.data.columns = {"y", "x", "site"};
    options_.data.slots = {{.name = "x", .type = config::SlotType::kFloat, .columns = {1}},
                           {.name = "site", .columns = {2}, .separator = '|'},
                           {.name = "y", .columns = {0}}};
  }
  void use(nn::SlotRule rule) { options_.rules.push_back(std::move(rule)); }
};

const nn::SlotRule kThreeClasses{.subject = "layer 'cost'",
                                 .slot_name = "y",
                                 .slot = 2,
                                 .is_label = true,
                                 .is_single = true,
                                 .below = 3};

TEST_F(RecordRulesTest, ALabelThatIsNoClassIsABadRecord) {
  use(kThreeClasses);
  EXPECT_EQ(parse("0,1,5|6\n2,1,\n"), (Records{"(1)|5 6|0", "(1)||2"}));
  EXPECT_EQ(mistake("1,1,4\n2,1,4|5|6\n3,1,7\n"),
            "bad.txt:3: layer 'cost': label 3 in slot 'y' is not below the 3 classes, which count "
            "from 0");
  EXPECT_TRUE(hint_of("1,1,4\n3,1,7\n")
                  .starts_with("list labels that do not count from 0 in the key 'labels' of the "
                               "slot, in their order: labels = [1, 2, 3]"));
  options_.data.skip_bad_records = true;
  EXPECT_EQ(parse("3,1,5\n1,2,5\n4,1,5\n2,2,5|9\n"), (Records{"(2)|5|1", "(2)|5 9|2"}));
  EXPECT_EQ(read().bad_records, 2U);
  // The list makes classes of them.
  options_.data.slots[2].labels = {"1", "2", "3"};
  EXPECT_EQ(parse("3,1,5\n1,2,5\n"), (Records{"(1)|5|2", "(2)|5|0"}));
}

TEST_F(RecordRulesTest, ALabelOfTwoIsZeroOrOne) {
  nn::SlotRule rule = kThreeClasses;
  rule.below = 2;
  use(rule);
  EXPECT_EQ(mistake("1,1,4\n7,1,4\n"),
            "bad.txt:2: layer 'cost': label 7 in slot 'y' is neither 0 nor 1");
  options_.data.slots[2] = {.name = "y", .type = config::SlotType::kFloat, .columns = {0}};
  options_.rules = {{.subject = "layer 'cost'",
                     .slot_name = "y",
                     .slot = 2,
                     .is_label = true,
                     .is_binary = true}};
  EXPECT_EQ(parse("1.0,1,4\n").size(), 1U);
  EXPECT_EQ(mistake("1,1,4\n0,1,4\n0.5,1,4\n"),
            "bad.txt:3: layer 'cost': label 0.5 in slot 'y' is neither 0 nor 1");
}

TEST_F(RecordRulesTest, AWeightBelow0IsABadRecord) {
  options_.data.slots[2] = {.name = "w", .type = config::SlotType::kFloat, .columns = {0}};
  use({.subject = "layer 'cost'",
       .slot_name = "w",
       .slot = 2,
       .is_label = true,
       .is_weight = true});
  EXPECT_EQ(parse("0,1,4\n2.5,1,4\n").size(), 2U);
  EXPECT_EQ(mistake("1,1,4\n-0.5,1,4\n"),
            "bad.txt:2: layer 'cost': weight -0.5 in slot 'w' is below 0");
}

TEST_F(RecordRulesTest, AnIdOutsideOfADenseTableIsABadRecord) {
  use({.subject = "layer 'rows'", .slot_name = "site", .slot = 1, .below = 10, .except = 99});
  EXPECT_EQ(parse("1,1,4|99|9\n").size(), 1U);
  EXPECT_EQ(mistake("1,1,4\n1,1,4|10\n"),
            "bad.txt:2: layer 'rows': id 10 in slot 'site' is not below the vocabulary of 10");
}

TEST_F(RecordRulesTest, SeveralLabelsWhereOneIsReadAreABadRecord) {
  options_.data.slots[2].separator = '|';
  use(kThreeClasses);
  EXPECT_EQ(parse("1,1,4\n").size(), 1U);
  EXPECT_EQ(mistake("1,1,4\n1|2,1,4\n"),
            "bad.txt:2: layer 'cost': slot 'y' has 2 ids, but only one is read");
  EXPECT_EQ(mistake(",1,4\n"), "bad.txt:1: layer 'cost': slot 'y' has 0 ids, but only one is read");
}

TEST_F(RecordRulesTest, WholeLinesOfOtherFormatsAreLeftOut) {
  options_.data = {};
  options_.data.format = "bow";
  options_.data.dictionary_size = dictionary_.size();
  options_.rules = {
      {.subject = "layer 'rows'", .slot_name = "words", .slot = 0, .below = 6},
      {.subject = "layer 'cost'", .slot_name = "label", .slot = 1, .is_label = true, .below = 2}};
  EXPECT_EQ(mistake("1\ta b\n2\ta\n"),
            "bad.txt:2: layer 'cost': label 2 in slot 'label' is neither 0 nor 1");
  options_.data.skip_bad_records = true;
  EXPECT_EQ(parse("1\ta b\n2\ta\n0\tc\n"), (Records{"2 3|1", "4|0"}));
  options_.data = {};
  options_.data.format = "ngram";
  options_.data.ngram = 3;
  options_.data.dictionary_size = dictionary_.size();
  options_.data.skip_bad_records = true;
  options_.rules = {
      {.subject = "layer 'cost'", .slot_name = "next", .slot = 2, .is_label = true, .below = 5}};
  EXPECT_EQ(parse("a b\na unknown b\nb\n"), (Records{"0|2|3", "2|3|1", "0|3|1"}));
}

// The first two of the classes -1, 0 and 1 would be one.
TEST_F(RecordRulesTest, MinusOneIsClass0OfTwoAndABadRecordAmongMore) {
  for (const std::string format : {"libsvm", "criteo"}) {
    const std::string rest = format == "libsvm" ? " 3:1\n" : std::string(39, '\t') + "\n";
    options_.data = {};
    options_.data.format = format;
    options_.rules = {{.slot_name = "label", .slot = 0, .is_label = true, .below = 2}};
    EXPECT_EQ(parse("-1" + rest + "1" + rest).size(), 2U);
    options_.rules.front().below = 3;
    EXPECT_EQ(mistake("1" + rest + "-1" + rest),
              "bad.txt:2: the label '-1' is not a whole number from 0 to 2^64-1");
    EXPECT_NE(hint_of("-1" + rest).find("labels = "), std::string::npos);
    options_.data.labels = {"-1", "0", "1"};
    EXPECT_EQ(parse("-1" + rest + "1" + rest + "0" + rest).size(), 3U);
    // A number that is estimated.
    options_.data.labels = {};
    options_.rules.front().below = 0;
    EXPECT_EQ(mistake("-1" + rest),
              "bad.txt:1: the label '-1' is not a whole number from 0 to 2^64-1");
    EXPECT_TRUE(hint_of("-1" + rest).starts_with("for regression set [data] label"));
    // Two classes that an evaluator also compares as numbers.
    options_.rules.push_back({.slot_name = "label", .slot = 0, .is_label = true, .below = 2});
    EXPECT_EQ(parse("-1" + rest).size(), 1U);
  }
}

TEST_F(RecordRulesTest, RulesThatAlwaysHoldCostNothing) {
  config::DataConfig data;
  data.format = "ngram";
  data.ngram = 3;
  data.dictionary_size = 6;
  const nn::SlotRule words{.subject = "layer 'cost'",
                           .slot_name = "next",
                           .slot = 2,
                           .is_label = true,
                           .is_single = true,
                           .below = 6};
  EXPECT_TRUE(RecordRules(data, {&words, 1}).empty());
  data.dictionary_size = 7;
  EXPECT_FALSE(RecordRules(data, {&words, 1}).empty());
  EXPECT_TRUE(RecordRules(data, {}).empty());
}

TEST_F(RecordRulesTest, ThePlacesOfAPassAreThoseOfItsRules) {
  const std::uint64_t key = pass_key(options_, 0);
  use(kThreeClasses);
  EXPECT_NE(pass_key(options_, 0), key);
}

}  // namespace
}  // namespace paddle::data
