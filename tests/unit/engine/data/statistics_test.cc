// Tests of statistics of training data: scikit-learn's constants, the same bits for any division of
// the records, and the form of a part.
#include "engine/data/statistics.h"

#include <algorithm>
#include <random>
#include <thread>

#include "base/crc32c.h"
#include "tests/unit/engine/data/data_fixture.h"

namespace paddle::data {
namespace {

class StatisticsTest : public DataTest {
 protected:
  StatisticsTest() {
    using config::Missing, config::Normalize, config::SlotType;
    options_.data.format = "csv";
    options_.data.columns = {"age", "pay", "debt", "kind"};
    options_.data.slots = {{.name = "age",
                            .type = SlotType::kFloat,
                            .width = 2,
                            .columns = {0, 1},
                            .missing = Missing::kMean,
                            .normalize = Normalize::kStandard},
                           {.name = "debt",
                            .type = SlotType::kFloat,
                            .columns = {2},
                            .missing = Missing::kMean,
                            .bucket_count = 4},
                           {.name = "kind", .columns = {3}, .learns_labels = true}};
  }

  Statistics observe(const std::vector<std::string>& files, std::uint32_t trainer = 0,
                     std::uint32_t trainers = 1) {
    options_.share.files = files;
    options_.share.records_split = trainers > 1;
    options_.trainer_id = trainer;
    options_.num_trainers = trainers;
    auto observed = observe_pass(options_, dictionary_);
    EXPECT_TRUE(observed) << observed.error().message;
    return observed ? *std::move(observed) : Statistics();
  }
  Statistics observe_text(const std::string& text) {
    return observe({folder_.write("train.csv", text)});
  }
  static std::string text_of_result(const Statistics& statistics) {
    const auto result = statistics.result();
    EXPECT_TRUE(result) << result.error().message;
    return result ? config::statistics_text(*result) : "";
  }

  static Bytes bytes_of_part(const Statistics& statistics) {
    return encode({.trainer = 1, .trainers = 3, .statistics = statistics});
  }
  // A part whose content has changed, with the right checksum.
  static Bytes sealed(Bytes bytes) {
    const std::size_t size = bytes.size() - sizeof(std::uint32_t);
    store_le(bytes.data() + size, crc32c(ByteSpan(bytes).first(size)));
    return bytes;
  }
};

constexpr const char* kSevenRecords =
    "1,3,0.1,b\n2.5,3,0.7,a\n,3,0.2,c\n-4,3,,a\n8,3,0.4,a\n,3,5.5,b\n0.1,3,-3.25,b\n";

TEST_F(StatisticsTest, TheConstantsAreThoseOfScikitLearn) {
  const auto result = observe_text(kSevenRecords).result();
  ASSERT_TRUE(result);
  EXPECT_EQ(result->records, 7U);
  ASSERT_EQ(result->slots.size(), 3U);
  // SimpleImputer(strategy="mean"), StandardScaler()
  const config::ColumnStatistics expected{.name = "age",
                                          .count = 5,
                                          .missing = 2,
                                          .mean = 1.5200000002980232,
                                          .fill = 1.5200000002980232,
                                          .filled_mean = 1.5200000002980232,
                                          .deviation = 3.2886818895758236,
                                          .minimum = -4,
                                          .maximum = 8};
  ASSERT_EQ(result->slots[0].columns.size(), 2U);
  EXPECT_EQ(result->slots[0].columns[0], expected);
  EXPECT_EQ(result->slots[0].columns[1].mean, 3);
  EXPECT_EQ(result->slots[0].columns[1].deviation, 0);
  EXPECT_EQ(result->slots[0].columns[1].name, "pay");
  EXPECT_EQ(result->slots[0].bucket_count, 0U);
  EXPECT_EQ(result->slots[1].bucket_count, 4U);
  EXPECT_EQ(result->slots[2].labels, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_TRUE(result->slots[2].columns.empty());
}

TEST_F(StatisticsTest, TheEdgesAreThoseOfScikitLearn) {
  // KBinsDiscretizer(n_bins=4, encode="ordinal", strategy="quantile") after SimpleImputer().
  const auto filled = observe_text(
                          "0,0,0.1,a\n0,0,0.7,a\n0,0,0.2,a\n0,0,,a\n0,0,0.4,a\n"
                          "0,0,5.5,a\n0,0,-3.25,a\n0,0,,a\n0,0,2.5,a\n")
                          .result();
  ASSERT_TRUE(filled);
  EXPECT_EQ(filled->slots[1].columns[0].edges,
            (std::vector<double>{0.20000000298023224, 0.699999988079071, 0.8785714283585548}));
  EXPECT_EQ(filled->slots[1].columns[0].quantile_error, 0);
  // bin_edges_ of 7 bins: two of them have no width.
  options_.data.slots[1].bucket_count = 7;
  std::string text;
  for (const int number : {0, 0, 0, 0, 1, 2, 2, 3, 5, 8, 8, 8, 8, 13})
    text += fmt::format("0,0,{},a\n", number);
  const auto repeated = observe_text(text).result();
  ASSERT_TRUE(repeated);
  EXPECT_EQ(repeated->slots[1].columns[0].edges,
            (std::vector<double>{0.7142857142857149, 2, 3.8571428571428594, 8}));
  const auto constant = observe_text("0,0,5,a\n0,0,5,a\n").result();
  ASSERT_TRUE(constant);
  EXPECT_EQ(constant->slots[1].columns[0].edges, std::vector<double>());
}

TEST_F(StatisticsTest, ConstantsAreOfTheNumbersAfterMissingOnesWereFilledIn) {
  options_.data.slots[0].missing = config::Missing::kValue;
  options_.data.slots[0].missing_value = -7.25;
  const auto result = observe_text(kSevenRecords).result();
  ASSERT_TRUE(result);
  const config::ColumnStatistics& column = result->slots[0].columns[0];
  EXPECT_EQ(column.mean, 1.5200000002980232);
  EXPECT_EQ(column.fill, -7.25);
  EXPECT_EQ(column.filled_mean, -0.9857142855014119);
  EXPECT_EQ(column.deviation, 5.148974536349199);
  EXPECT_EQ(column.minimum, -7.25);
  EXPECT_EQ(column.maximum, 8);
}

TEST_F(StatisticsTest, AColumnWithoutAnyNumber) {
  const auto result = observe_text(",1,,a\n,2,,a\n").result();
  ASSERT_TRUE(result);
  const config::ColumnStatistics expected{.name = "age", .count = 0, .missing = 2};
  EXPECT_EQ(result->slots[0].columns[0], expected);
}

std::string random_lines(std::size_t count) {
  std::mt19937 random(11);
  std::normal_distribution<float> far(1000, 3), near(0, 3);
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string age = random() % 9 == 0 ? "" : fmt::format("{}", far(random));
    text += fmt::format("{},{},{},label{}\n", age, random() % 100, near(random), random() % 300);
  }
  return text;
}

TEST_F(StatisticsTest, AnyDivisionOfTheRecordsHasTheSameBits) {
  const std::string file = folder_.write("train.csv", random_lines(80'000));
  const Statistics whole = observe({file});
  const std::string expected = text_of_result(whole);
  const auto result = whole.result();
  ASSERT_TRUE(result);
  ASSERT_GT(result->slots[1].columns[0].quantile_error, 0) << "too few different numbers";
  ASSERT_EQ(result->slots[2].labels.size(), 300U);
  for (const std::uint32_t trainers : {2U, 4U, 7U}) {
    std::vector<Statistics> parts;
    for (std::uint32_t i = 0; i < trainers; ++i) parts.push_back(observe({file}, i, trainers));
    for (int turn = 0; turn < 3; ++turn) {
      Statistics sum = parts.front();
      for (std::uint32_t i = 1; i < trainers; ++i) ASSERT_TRUE(sum.merge(parts[i]));
      EXPECT_EQ(text_of_result(sum), expected) << trainers;
      std::ranges::rotate(parts, parts.begin() + 1);
    }
  }
}

TEST_F(StatisticsTest, AnyOrderAndNumberOfThreadsHaveTheSameBits) {
  std::vector<std::string> files;
  for (int i = 0; i < 5; ++i)
    files.push_back(folder_.write(fmt::format("part{}.csv", i), random_lines(3000 + 100 * i)));
  const std::string expected = text_of_result(observe(files));
  std::ranges::reverse(files);
  options_.data.threads = 4;
  options_.data.files_at_once = 3;
  EXPECT_EQ(text_of_result(observe(files)), expected);
}

TEST_F(StatisticsTest, ZerosOfEitherSignAreOneNumber) {
  const std::string expected = text_of_result(observe_text("0,3,0,a\n0,3,0,a\n"));
  for (const char* const text : {"0,3,-0,a\n-0,3,0,a\n", "-0,3,0,a\n0,3,-0,a\n"})
    EXPECT_EQ(text_of_result(observe_text(text)), expected);
}

TEST_F(StatisticsTest, ABlockMayHaveMoreRecordsThanBinsHaveRoomFor) {
  options_.data.columns = {"age"};
  options_.data.slots = {{.name = "age",
                          .type = config::SlotType::kFloat,
                          .columns = {0},
                          .missing = config::Missing::kMean,
                          .normalize = config::Normalize::kStandard}};
  std::string text;
  for (std::size_t i = 0; i < 2 * NumberBins::kNumbersMax + 5; ++i)
    text += i % 2 == 0 ? "1\n" : "2\n";
  const auto result = observe_text(text).result();
  ASSERT_TRUE(result);
  EXPECT_EQ(result->slots[0].columns[0].count, 2 * NumberBins::kNumbersMax + 5);
  EXPECT_EQ(result->slots[0].columns[0].maximum, 2);
}

TEST_F(StatisticsTest, SeveralThreadsAddAtOnce) {
  const std::string file = folder_.write("train.csv", random_lines(5000));
  options_.share.files = {file};
  Statistics sum(options_.data);
  data::DatasetOptions options = options_;
  options.observe = [&sum](const RecordBlock& block) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([&] { sum.add(block); });
    for (std::thread& thread : threads) thread.join();
  };
  const auto stream = open_pass(options, dictionary_, 0);
  const auto batch = stream->next();
  ASSERT_TRUE(batch && !*batch);
  EXPECT_EQ(text_of_result(sum), text_of_result(observe({file, file, file, file})));
}

TEST_F(StatisticsTest, APartIsReadBackAsItWas) {
  const Statistics whole = observe_text(random_lines(2000));
  const auto read = decode_part(bytes_of_part(whole));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->trainer, 1U);
  EXPECT_EQ(read->trainers, 3U);
  EXPECT_EQ(text_of_result(read->statistics), text_of_result(whole));
  EXPECT_EQ(bytes_of_part(read->statistics), bytes_of_part(whole));
}

TEST_F(StatisticsTest, PartsOfOtherSlotsAreRefused) {
  Statistics one = observe_text(kSevenRecords);
  options_.data.slots[0].missing = config::Missing::kRefuse;
  const Statistics other(options_.data);
  const Status merged = one.merge(other);
  ASSERT_FALSE(merged);
  EXPECT_EQ(merged.error().message, "it is of other slots, or of slots with other keys");
  options_.data.slots[0].missing = config::Missing::kMean;
  options_.data.slots[0].columns = {1, 0};
  EXPECT_FALSE(one.merge(Statistics(options_.data))) << "columns in another order";
}

TEST_F(StatisticsTest, APartKnowsWhatWasHeldOut) {
  config::JobConfig job;
  EXPECT_EQ(held_out_text(job), "no test_fraction");
  job.seed = 7;
  job.data.test_fraction = 0.1;
  EXPECT_EQ(held_out_text(job), "test_fraction = 0.1, seed = 7");
  job.data.split_by = "user";
  EXPECT_EQ(held_out_text(job), "test_fraction = 0.1, split_by = \"user\", seed = 7");
  const auto read = decode_part(encode(
      {.trainer = 1, .trainers = 3, .held_out = held_out_text(job), .statistics = Statistics()}));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->held_out, held_out_text(job));
}

TEST_F(StatisticsTest, ADamagedPartIsAnError) {
  const Bytes good = bytes_of_part(observe_text(kSevenRecords));
  EXPECT_FALSE(decode_part({}));
  EXPECT_EQ(decode_part(as_bytes("{\"format\":1}")).error().message, "it is no part of statistics");
  for (std::size_t size = 0; size < good.size(); ++size)
    ASSERT_FALSE(decode_part(ByteSpan(good).first(size))) << size;
  for (std::size_t at = 0; at < good.size(); ++at) {
    Bytes bad = good;
    bad[at] ^= std::byte{0x40};
    ASSERT_FALSE(decode_part(bad)) << at;
  }
}

// A forged part has the right checksum. It is an error, or something that can be used.
TEST_F(StatisticsTest, AForgedPartDoesNoHarm) {
  const Statistics whole = observe_text(kSevenRecords);
  const Bytes good = bytes_of_part(whole);
  std::size_t refused = 0;
  for (std::size_t at = 0; at + sizeof(std::uint32_t) < good.size(); ++at) {
    for (const unsigned bits : {0x01U, 0x80U, 0xffU}) {
      Bytes bad = good;
      bad[at] ^= static_cast<std::byte>(bits);
      const auto read = decode_part(sealed(bad));
      refused += read ? 0 : 1;
      if (!read) continue;
      Statistics sum = whole;
      if (sum.merge(read->statistics)) (void)sum.result();
    }
  }
  EXPECT_GT(refused, 0U);
  Bytes longer = good;
  longer.resize(longer.size() + 8);
  EXPECT_FALSE(decode_part(sealed(longer)));
}

TEST_F(StatisticsTest, NoRecordIsAnError) {
  const auto result = observe_text("").result();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Errc::kData);
  EXPECT_EQ(result.error().message, "the training data has no record");
}

TEST_F(StatisticsTest, TooManyLabelsAreAnError) {
  std::string text;
  for (std::size_t i = 0; i <= config::kLabelsMax; ++i) text += fmt::format("0,0,0,n{}\n", i);
  const Statistics whole = observe_text(text);
  const auto result = whole.result();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "slot 'kind' has over 65536 labels, or over 16 MiB of them");
  const auto read = decode_part(bytes_of_part(whole));
  ASSERT_TRUE(read);
  EXPECT_FALSE(read->statistics.result());
}

TEST_F(StatisticsTest, ManyColumnsShareTheCounts) {
  const auto counts_of_column = [&](std::uint32_t width) {
    options_.data.slots[1].width = width;
    Bytes bytes;
    Statistics(options_.data).append_to(bytes);
    return load_le<std::uint32_t>(bytes.data() + sizeof(std::uint64_t));  // behind the records
  };
  EXPECT_EQ(counts_of_column(1), 65536U);
  EXPECT_EQ(counts_of_column(256), 65536U);
  EXPECT_EQ(counts_of_column(257), 32768U);
}

TEST_F(StatisticsTest, HeldOutRecordsDoNotCount) {
  options_.data.test_fraction = 0.25;
  const auto result = observe_text(random_lines(4000)).result();
  ASSERT_TRUE(result);
  EXPECT_GT(result->records, 2800U);
  EXPECT_LT(result->records, 3200U);
}

TEST_F(StatisticsTest, BadRecordsDoNotCount) {
  options_.data.skip_bad_records = true;
  const auto result = observe_text("1,1,1,a\nx,1,1,zz\n3,1,1,a\n").result();
  ASSERT_TRUE(result);
  EXPECT_EQ(result->records, 2U);
  EXPECT_EQ(result->slots[0].columns[0].mean, 2);
}

TEST_F(StatisticsTest, AnInfiniteNumberIsABadRecord) {
  for (const char* const infinite : {"inf", "-Infinity", "1e39"}) {
    options_.share.files = {folder_.write("train.csv", fmt::format("1,1,{},a\n", infinite))};
    const auto observed = observe_pass(options_, dictionary_);
    ASSERT_FALSE(observed) << infinite;
    EXPECT_EQ(observed.error().code, Errc::kData);
  }
}

}  // namespace
}  // namespace paddle::data
