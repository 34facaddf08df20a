// Tests of prepared numbers, of which those of statistics are compared with scikit-learn 1.2.
#include "engine/data/preparation.h"

#include <cmath>
#include <ostream>

#include "engine/config/statistics_file.h"
#include "engine/data/fields.h"
#include "engine/data/format.h"
#include "tests/unit/engine/data/data_fixture.h"
#include "tests/unit/engine/data/npz_file.h"

namespace paddle::data {
namespace {

using config::DataSlotConfig;
using config::Missing;
using config::Normalize;
using config::SlotType;
using Records = std::vector<std::string>;

// A column of a csv file, and what scikit-learn makes of it: SimpleImputer with the mean, 0 or
// -3.5, then StandardScaler, MinMaxScaler or KBinsDiscretizer(4, encode="ordinal",
// strategy="quantile").
constexpr const char* kColumn = "1.5\n\n-2.25\n7\n0.125\n100\nNA\n7\n";
struct Reference {
  Missing missing;
  double fill, mean, deviation, minimum;
  std::vector<double> edges;
  std::vector<float> standard, min_max, logarithm;
  std::vector<std::uint64_t> buckets;
};
const Reference kReferences[] = {
    {Missing::kMean,
     18.895833333333332,
     18.895833333333332,
     31.549589975214683,
     -2.25,
     {1.15625, 7.0, 18.895833333333332},
     {-0.55138063F, 0.0F, -0.6702411F, -0.37705192F, -0.59496284F, 2.5706885F, 0.0F, -0.37705192F},
     {0.036674816F, 0.20680521F, 0.0F, 0.09046455F, 0.023227384F, 1.0F, 0.20680521F, 0.09046455F},
     {0.91629076F, 2.9905102F, -1.178655F, 2.0794415F, 0.11778303F, 4.6151204F, 2.9905102F,
      2.0794415F},
     {1, 3, 0, 2, 0, 3, 3, 2}},
    {Missing::kZero,
     0,
     14.171875,
     32.59331180793653,
     -2.25,
     {0.0, 0.8125, 7.0},
     {-0.3887876F, -0.4348093F, -0.5038419F, -0.2200413F, -0.43097416F, 2.6333048F, -0.4348093F,
      -0.2200413F},
     {0.036674816F, 0.02200489F, 0.0F, 0.09046455F, 0.023227384F, 1.0F, 0.02200489F, 0.09046455F},
     {0.91629076F, 0.0F, -1.178655F, 2.0794415F, 0.11778303F, 4.6151204F, 0.0F, 2.0794415F},
     {2, 1, 0, 3, 1, 3, 1, 3}},
    {Missing::kValue,
     -3.5,
     13.296875,
     33.00638772812582,
     -3.5,
     {-2.5625, 0.8125, 7.0},
     {-0.3574119F, -0.5088977F, -0.47102624F, -0.19077747F, -0.39907047F, 2.626859F, -0.5088977F,
      -0.19077747F},
     {0.048309177F, 0.0F, 0.012077294F, 0.10144927F, 0.035024155F, 1.0F, 0.0F, 0.10144927F},
     {0.91629076F, -1.5040774F, -1.178655F, 2.0794415F, 0.11778303F, 4.6151204F, -1.5040774F,
      2.0794415F},
     {2, 0, 1, 3, 1, 3, 0, 3}}};

// The name of a case in ctest must not contain an address.
void PrintTo(const Reference& reference, std::ostream* out) {
  *out << "fill " << reference.fill;
}

class PreparationTest : public DataTest {
 protected:
  // A csv job with the columns a, b and y, of which the slot "x" has a and b.
  PreparationTest() {
    options_.data = {};
    options_.data.format = "csv";
    options_.data.columns = {"a", "b", "y"};
    options_.data.slots = {{.name = "x", .type = SlotType::kFloat, .width = 2, .columns = {0, 1}},
                           {.name = "y", .columns = {2}}};
  }
  DataSlotConfig& x() { return options_.data.slots.at(0); }
  // Sets constants for the options of x.
  void fit(double fill, double offset, double scale, const std::vector<double>& edges = {}) {
    x().fits.assign(x().width, {.fill = fill, .offset = offset, .scale = scale, .edges = edges});
  }
  // The records of the pass, in the way that DatasetOptions::observe gets them.
  RecordBlock observe(const std::string& text) {
    RecordBlock all;
    options_.share.files = {folder_.write("good.txt", text)};
    options_.observe = [&all](const RecordBlock& block) {
      all.values.insert(all.values.end(), block.values.begin(), block.values.end());
      all.ids.insert(all.ids.end(), block.ids.begin(), block.ids.end());
      all.records.insert(all.records.end(), block.records.begin(), block.records.end());
      if (!block.seen_labels.empty()) all.seen_labels = block.seen_labels;
    };
    const Outcome outcome = read();
    EXPECT_TRUE(outcome.status) << outcome.status.error().message;
    EXPECT_TRUE(outcome.records.empty());
    options_.observe = {};
    return all;
  }
};

class ReferenceTest : public testing::TestWithParam<Reference> {
 protected:
  ReferenceTest() {
    data_.format = "csv";
    data_.columns = {"x"};
    data_.slots = {{.name = "x", .type = SlotType::kFloat, .columns = {0}}};
    data_.slots[0].missing = GetParam().missing;
    data_.slots[0].missing_value = GetParam().fill;
    // In the text of the column two numbers are missing.
    data_.slots[0].missing_indicator = GetParam().missing == Missing::kZero;
  }
  RecordBlock prepared() {
    const Reference& reference = GetParam();
    config::DataStatistics statistics{.records = 8, .slots = {}};
    statistics.slots.push_back({.name = "x",
                                .columns = {{.count = 6,
                                             .missing = 2,
                                             .mean = 18.895833333333332,
                                             .fill = reference.fill,
                                             .filled_mean = reference.mean,
                                             .deviation = reference.deviation,
                                             .minimum = reference.minimum,
                                             .maximum = 100}}});
    statistics.slots[0].bucket_count = data_.slots[0].bucket_count;
    if (data_.slots[0].bucket_count > 0) statistics.slots[0].columns[0].edges = reference.edges;
    const Status used = config::use_statistics(statistics, data_);
    EXPECT_TRUE(used) << used.error().message;
    if (!data_.slots[0].needs_statistics()) data_.slots[0].fits = {{.fill = reference.fill}};
    const Dictionary dictionary;
    const auto format = make_csv(data_, dictionary);
    Preparation preparation(data_);
    RecordBlock block;
    std::string_view rest = kColumn;
    while (!rest.empty()) {
      // An empty line of the only column is no record, so it is quoted.
      const std::string_view line = take_field(rest, '\n');
      const std::size_t first = block.records.size();
      const Status parsed = format->parse(line.empty() ? "\"\"" : line, block);
      EXPECT_TRUE(parsed) << parsed.error().message;
      EXPECT_TRUE(preparation.prepare(first, block));
    }
    return block;
  }
  // The numbers of all records, without their indicators.
  std::vector<float> numbers() {
    const RecordBlock block = prepared();
    std::vector<float> all;
    for (const RecordBlock::Extent& record : block.records)
      all.push_back(block.view(record).values.front());
    return all;
  }

  config::DataConfig data_;
};

TEST_P(ReferenceTest, StandardIsStandardScaler) {
  data_.slots[0].normalize = Normalize::kStandard;
  const std::vector<float> made = numbers();
  ASSERT_EQ(made.size(), 8U);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_FLOAT_EQ(made[i], GetParam().standard[i]) << i;
}

TEST_P(ReferenceTest, MinMaxIsMinMaxScaler) {
  data_.slots[0].normalize = Normalize::kMinMax;
  const std::vector<float> made = numbers();
  ASSERT_EQ(made.size(), 8U);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_FLOAT_EQ(made[i], GetParam().min_max[i]) << i;
}

TEST_P(ReferenceTest, LogIsLog1pWithASign) {
  data_.slots[0].normalize = Normalize::kLog;
  const std::vector<float> made = numbers();
  ASSERT_EQ(made.size(), 8U);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_FLOAT_EQ(made[i], GetParam().logarithm[i]) << i;
}

TEST_P(ReferenceTest, BucketIsKBinsDiscretizer) {
  data_.slots[0].missing_indicator = false;
  data_.slots[0].bucket_count = 4;
  // A column without `missing` reads an empty field as 0, and refuses words.
  if (GetParam().missing == Missing::kZero) data_.slots[0].missing = Missing::kValue;
  const RecordBlock block = prepared();
  EXPECT_EQ(block.ids, GetParam().buckets);
  EXPECT_TRUE(block.values.empty());
}

INSTANTIATE_TEST_SUITE_P(Fills, ReferenceTest, testing::ValuesIn(kReferences));

TEST_F(PreparationTest, MissingNumbersAreFilledInAndMarked) {
  x().missing = Missing::kMean;
  x().missing_indicator = true;
  fit(2.5, 0, 1);
  x().fits[1].fill = -1;
  EXPECT_EQ(parse("1,2,0\n,3,1\nNA, ? ,2\n4,nan,3\n"),
            (Records{"(1 2 0 0)|0", "(2.5 3 1 0)|1", "(2.5 -1 1 1)|2", "(4 -1 0 1)|3"}));
  EXPECT_EQ(mistake("1,abc,0\n"), "bad.txt:1: column 'b': 'abc' is not a finite number");
  EXPECT_EQ(mistake("1,inf,0\n"), "bad.txt:1: column 'b': 'inf' is not a finite number");
}

TEST_F(PreparationTest, WithoutTheKeyAWordIsABadRecordWithANextStep) {
  EXPECT_EQ(parse("1,,0\n"), Records{"(1 0)|0"});
  EXPECT_EQ(mistake("1,NA,0\n"),
            "bad.txt:1: column 'b': 'NA' is not a finite number: it stands for a missing value");
  EXPECT_TRUE(hint_of("1,NA,0\n").starts_with("missing = \"mean\", or a number, in the slot"));
}

TEST_F(PreparationTest, RefusedRecordsAreNamedByFileLineAndColumn) {
  x().missing = Missing::kRefuse;
  fit(0, 0, 1);
  EXPECT_EQ(parse("1,2,0\n"), Records{"(1 2)|0"});
  EXPECT_EQ(mistake("1,2,0\n3,,1\n"), "bad.txt:2: column 'b': the number is missing");
  EXPECT_EQ(mistake("1,2,0\nNA,4,1\n"), "bad.txt:2: column 'a': the number is missing");
  EXPECT_TRUE(hint_of("1,2,0\n3,,1\n").starts_with("missing = \"mean\", or a number,"));
  options_.data.skip_bad_records = true;
  options_.share.files = {folder_.write("bad.txt", "1,2,0\n3,,1\n5,6,2\n")};
  const Outcome outcome = read();
  EXPECT_EQ(outcome.records, (Records{"(1 2)|0", "(5 6)|2"}));
  EXPECT_EQ(outcome.bad_records, 1U);
}

TEST_F(PreparationTest, NumbersAreScaledInPlace) {
  x().normalize = Normalize::kStandard;
  fit(0, 10, 0.5);
  EXPECT_EQ(parse("12,10,0\n,8,1\n"), (Records{"(1 0)|0", "(-5 -1)|1"}));
}

TEST_F(PreparationTest, TheLogarithmIsExactForSmallAndLargeNumbers) {
  x().normalize = Normalize::kLog;
  fit(0, 0, 1);
  const float tiny = 1e-30F, small = 1e-6F, large = 3e38F;
  options_.share.files = {folder_.write("good.txt", "1e-30,-1e-6,0\n3e38,-0.5,0\n")};
  const auto stream = open_pass(options_, dictionary_, 0);
  const auto batch = *stream->next();
  const std::vector<float>& values = batch->slots.at(0).values;
  EXPECT_EQ(values.at(0), tiny);
  EXPECT_EQ(values.at(1), static_cast<float>(-std::log1p(static_cast<double>(small))));
  EXPECT_EQ(values.at(2), static_cast<float>(std::log1p(static_cast<double>(large))));
  EXPECT_EQ(values.at(3), static_cast<float>(-std::log1p(0.5)));
}

TEST_F(PreparationTest, BucketsAreIdsOfTheirColumn) {
  x().bucket_edges = {18, 65};
  fit(0, 0, 1, {18, 65});
  EXPECT_EQ(parse("17.9,18,0\n65,-3,1\n,64.99,2\n"), (Records{"0 4|0", "2 3|1", "0 4|2"}));
  x().columns = {1};
  x().width = 1;
  fit(0, 0, 1, {18, 65});
  options_.rules = {{.subject = "layer 'e'", .slot_name = "x", .slot = 0, .below = 2}};
  EXPECT_EQ(parse("0,20,0\n"), Records{"1|0"});
  EXPECT_EQ(mistake("0,66,0\n"),
            "bad.txt:1: layer 'e': id 2 in slot 'x' is not below the vocabulary of 2");
}

TEST_F(PreparationTest, EdgesOfTheJobAreKeptBesidesStatistics) {
  x().missing = Missing::kMean;
  x().bucket_edges = {18, 65};
  config::DataStatistics statistics{.records = 2, .slots = {}};
  statistics.slots.push_back(
      {.name = "x",
       .columns = {{.count = 1, .mean = 20, .fill = 20}, {.count = 1, .mean = 70, .fill = 70}}});
  ASSERT_TRUE(config::use_statistics(statistics, options_.data));
  EXPECT_EQ(parse("3,4,0\n,,1\n"), (Records{"0 3|0", "1 5|1"}));
}

TEST_F(PreparationTest, OtherSlotsKeepTheirPlaces) {
  options_.data.columns = {"tags", "a", "z", "y"};
  options_.data.slots = {
      {.name = "tags", .type = SlotType::kHash, .columns = {0}, .separator = ' '},
      {.name = "a", .type = SlotType::kFloat, .columns = {1}, .bucket_edges = {0}},
      {.name = "z", .type = SlotType::kFloat, .columns = {2}},
      {.name = "y", .columns = {3}}};
  options_.data.buckets = 1000;
  options_.data.slots[1].fits = {{.edges = {0}}};
  const SlotHash hash("tags", 1000);
  EXPECT_EQ(parse("p q,-1,0.5,1\n,2,7,0\n"),
            (Records{fmt::format("{} {}|0|(0.5)|1", hash("p"), hash("q")), "|1|(7)|0"}));
}

TEST_F(PreparationTest, JsonLinesMarkNullsAndAbsentKeys) {
  options_.data = {};
  options_.data.format = "jsonl";
  options_.data.slots = {{.name = "x", .type = SlotType::kFloat, .width = 2}, {.name = "y"}};
  x().missing = Missing::kMean;
  fit(9, 0, 1);
  EXPECT_EQ(parse(R"({"x":[1,2],"y":0}
{"y":1}
{"x":null,"y":2}
{"x":[null,"NA"],"y":3}
{"x":["",4],"y":4}
)"),
            (Records{"(1 2)|0", "(9 9)|1", "(9 9)|2", "(9 9)|3", "(9 4)|4"}));
  EXPECT_EQ(mistake("{\"x\":[1,\"2\"],\"y\":0}\n"), "bad.txt:1: 'x' must be a list of 2 numbers");
  x().missing = Missing::kRefuse;
  EXPECT_EQ(mistake("{\"x\":[1,null],\"y\":0}\n"),
            "bad.txt:1: column 'x[1]': the number is missing");
}

TEST_F(PreparationTest, MultislotAndNpzMarkNaN) {
  options_.data = {};
  options_.data.format = "multislot";
  options_.data.slots = {{.name = "x", .type = SlotType::kFloat, .width = 2}, {.name = "y"}};
  EXPECT_EQ(mistake("2 nan 1 1 0\n").substr(0, 10), "bad.txt:1:");
  x().missing = Missing::kMean;
  fit(9, 0, 1);
  EXPECT_EQ(parse("2 nan 1 1 0\n2 3 NA 1 1\n"), (Records{"(9 1)|0", "(3 9)|1"}));

  options_.data.format = "npz";
  const std::string path = folder_ / "good.npz";
  write_zip(path, {{"x.npy", npy_of<float>("<f4", {NAN, 1, 3, NAN}, 2)},
                   {"y.npy", npy_of<std::int64_t>("<i8", {0, 1})}});
  options_.share.files = {path};
  EXPECT_EQ(read_all(), (Records{"(9 1)|0", "(3 9)|1"}));
  x().missing = Missing::kZero;
  EXPECT_EQ(mistake_of(path),
            "good.npz: record 1: array 'x' has nan, which is not a finite float32");
}

TEST_F(PreparationTest, ObserversSeeRawRecordsWithoutStatistics) {
  x().missing = Missing::kMean;
  x().normalize = Normalize::kStandard;
  options_.data.slots[1].learns_labels = true;
  ASSERT_TRUE(config::lacks_statistics(options_.data));
  const RecordBlock seen = observe("1,,no\n5,6,maybe\n7,8,no\n");
  ASSERT_EQ(seen.records.size(), 3U);
  EXPECT_EQ(seen.values.at(0), 1);
  EXPECT_TRUE(std::isnan(seen.values.at(1)));
  EXPECT_EQ(seen.ids, (std::vector<std::uint64_t>{0, 0, 0}));
  ASSERT_EQ(seen.seen_labels.size(), 2U);
  EXPECT_EQ(seen.seen_labels[1], (std::set<std::string, std::less<>>{"maybe", "no"}));
}

TEST_F(PreparationTest, LabelsOfBadRecordsAreNotLearned) {
  x().missing = Missing::kMean;
  options_.data.skip_bad_records = true;
  std::ranges::swap(options_.data.slots[0], options_.data.slots[1]);
  options_.data.slots[0].learns_labels = true;
  const RecordBlock seen = observe("1,2,yes\n3,abc,broken\n5,6,no\n");
  ASSERT_EQ(seen.seen_labels.size(), 1U);
  EXPECT_EQ(seen.seen_labels[0], (std::set<std::string, std::less<>>{"no", "yes"}));
}

TEST_F(PreparationTest, LearnedLabelsAreNamesOnceTheyAreKnown) {
  options_.data.slots[1].learns_labels = true;
  options_.data.slots[1].labels = {"no", "yes"};
  EXPECT_EQ(parse("1,2,yes\n3,4,no\n"), (Records{"(1 2)|1", "(3 4)|0"}));
  EXPECT_EQ(mistake("1,2,maybe\n"),
            "bad.txt:1: column 'y': 'maybe' is not one of the labels no, yes");
}

// A pass that goes on where another ended must have been prepared in the same way.
TEST_F(PreparationTest, OptionsAndConstantsBelongToThePass) {
  const std::uint64_t plain = reader_key(options_.data);
  x().normalize = Normalize::kStandard;
  fit(0, 10, 0.5);
  const std::uint64_t scaled = reader_key(options_.data);
  EXPECT_NE(scaled, plain);
  fit(0, 10, 0.25);
  EXPECT_NE(reader_key(options_.data), scaled);
  fit(0, 10, 0.5);
  EXPECT_EQ(reader_key(options_.data), scaled);
  x().normalize = Normalize::kNone;
  x().bucket_edges = {1};
  fit(0, 0, 1, {1});
  const std::uint64_t buckets = reader_key(options_.data);
  fit(0, 0, 1, {2});
  EXPECT_NE(reader_key(options_.data), buckets);
}

TEST_F(PreparationTest, TheCacheKeepsPreparedRecords) {
  x().normalize = Normalize::kStandard;
  fit(0, 10, 0.5);
  options_.data.cache = true;
  options_.cache = std::make_shared<RecordCache>(1U << 20U);
  EXPECT_EQ(parse("12,10,0\n"), Records{"(1 0)|0"});
  EXPECT_EQ(options_.cache->blocks().at(0).values, (std::vector<float>{1, 0}));
  EXPECT_EQ(read_all(1), Records{"(1 0)|0"});
}

}  // namespace
}  // namespace paddle::data
