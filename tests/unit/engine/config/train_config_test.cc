// The keys of [train] by which a job ends before its last pass.
#include <gtest/gtest.h>

#include "engine/config/job_config.h"
#include "tests/support/price_network.h"
#include "tests/support/temporary_folder.h"

namespace paddle::config {
namespace {

constexpr const char* kTest = "test = \"test.csv\"\n";
const std::string kTrainJob = std::string(test::kPriceNetwork) + "[train]\npasses = 9\n";

class TrainConfigTest : public testing::Test {
 protected:
  Result<JobConfig> read(const std::string& keys, const std::string& test = kTest,
                         const std::vector<std::string>& overrides = {}) {
    return read_job(folder_.write("job.toml",
                                  "[data]\ntrain = \"a.csv\"\nformat = \"csv\"\n"
                                  "columns = [\"area\", \"price\"]\n" +
                                      test + kTrainJob + keys),
                    overrides);
  }
  // "job.toml:26:8: 'best' ..., then the hint"
  std::string mistake(const std::string& keys, const std::string& test = kTest) {
    const auto job = read(keys, test);
    if (job) return "none";
    EXPECT_EQ(job.error().code, Errc::kUsage);
    const std::string& message = job.error().message;
    const std::size_t begin = folder_.path().size() + 1;
    return message.substr(begin, message.find('\n') - begin) + ", then " + job.error().hint;
  }

  test::TemporaryFolder folder_;
};

TEST_F(TrainConfigTest, ABatchOfEachTrainerIsItsPartOfThatOfAll) {
  const auto each = read("batch_size = 64\n");
  ASSERT_TRUE(each) << each.error().message;
  EXPECT_EQ(*each->train.batch_size_of(2, 3), 64U);
  const auto total = read("batch_size_total = 256\n");
  ASSERT_TRUE(total) << total.error().message;
  for (const std::uint32_t trainers : {1U, 2U, 3U, 7U, 256U}) {
    std::uint32_t sum = 0;
    for (std::uint32_t trainer = 0; trainer < trainers; ++trainer) {
      const auto size = total->train.batch_size_of(trainer, trainers);
      ASSERT_TRUE(size);
      EXPECT_GE(*size, 256 / trainers);
      EXPECT_LE(*size, 256 / trainers + 1);
      sum += *size;
    }
    EXPECT_EQ(sum, 256U) << trainers;
  }
  const auto none = total->train.batch_size_of(0, 257);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::kUsage);
  EXPECT_EQ(none.error().message,
            "train.batch_size_total = 256 is less than one example for each of 257 trainers");
}

TEST_F(TrainConfigTest, TheTwoSizesOfABatchExcludeEachOtherUnlessAnOverrideChooses) {
  EXPECT_EQ(mistake("batch_size = 64\nbatch_size_total = 256\n"),
            "job.toml:25:20: 'batch_size_total' is the size for all trainers together, "
            "'batch_size' for each, then leave one of them out");
  const auto size = [&](const std::string& keys, const std::string& set) {
    const auto job = read(keys, kTest, {set});
    return job ? *job->train.batch_size_of(0, 2) : 0;
  };
  EXPECT_EQ(size("batch_size_total = 256\n", "train.batch_size=64"), 64U);
  EXPECT_EQ(size("batch_size = 64\n", "train.batch_size_total=256"), 128U);
  EXPECT_EQ(size("batch_size_total = 256\n", "train.batch_size_total=100"), 50U);
  EXPECT_FALSE(read("", kTest, {"train.batch_size=1", "train.batch_size_total=2"}));
}

TEST_F(TrainConfigTest, AJobGoesOnToItsLastPassUnlessItSaysMore) {
  const auto job = read("");
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_FALSE(job->train.has_decisions());
  EXPECT_EQ(job->train.best, "");
  EXPECT_FALSE(job->train.time_max);
}

TEST_F(TrainConfigTest, EndsAreReadWithTheirPlaces) {
  const auto job = read(
      "best = \"rmse\"\nstop_after_worse = 3\nstop_when = \"rmse <= 0.5\"\ntime_max = \"1h30m\"\n");
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_TRUE(job->train.has_decisions());
  EXPECT_EQ(job->train.best, "rmse");
  EXPECT_EQ(job->train.best_location, folder_ / "job.toml:24");
  EXPECT_EQ(job->train.stop_after_worse, 3U);
  ASSERT_TRUE(job->train.stop_when);
  EXPECT_EQ(job->train.stop_when->figure, "rmse");
  EXPECT_EQ(job->train.stop_when_location, folder_ / "job.toml:26");
  EXPECT_EQ(job->train.time_max, std::chrono::minutes(90));
  const auto set =
      read("", kTest, {"train.best=cost", "train.stop_when=cost < 1", "train.time_max=2h"});
  ASSERT_TRUE(set) << set.error().message;
  EXPECT_EQ(set->train.best_location, "--set train.best=cost");
  EXPECT_EQ(set->train.stop_when->limit, 1);
  EXPECT_EQ(set->train.time_max, std::chrono::hours(2));
}

TEST_F(TrainConfigTest, AMistakeNamesItsLineAndTheNextStep) {
  EXPECT_EQ(mistake("best = \"\"\n"),
            "job.toml:24:8: 'best' is empty, then name \"cost\" or an evaluator, or leave the key "
            "out");
  EXPECT_EQ(mistake("stop_after_worse = 2\n"),
            "job.toml:24:20: 'stop_after_worse' needs 'best', the figure that is compared, then "
            "best = \"cost\", or an evaluator such as \"auc\"");
  EXPECT_EQ(mistake("stop_when = \"rmse = 0.5\"\n"),
            "job.toml:24:13: 'stop_when' is 'rmse = 0.5', which is not a condition, then write a "
            "figure, one of >=, >, <= and <, and a number: \"auc >= 0.8\"");
  EXPECT_EQ(mistake("time_max = \"2 hours\"\n"),
            "job.toml:24:12: 'time_max' is '2 hours', which is not a duration, then write whole "
            "numbers of d, h, m and s, the larger first: \"2h\", \"1h30m\", \"90s\"");
  EXPECT_EQ(mistake("time_max = 7200\n"),
            "job.toml:24:12: 'time_max' must be a string with a unit, then write whole numbers of "
            "d, h, m and s, the larger first: \"2h\", \"1h30m\", \"90s\"");
}

TEST_F(TrainConfigTest, WithoutTestDataNothingIsTheBest) {
  for (const char* const keys : {"best = \"cost\"\n", "stop_when = \"cost < 1\"\n"}) {
    const std::string key(keys, std::string_view(keys).find(' '));
    EXPECT_NE(mistake(keys, "").find("'" + key +
                                     "' needs tests, but [data] holds out nothing for them, then "
                                     "hold out a tenth of the records: test_fraction = 0.1 in "
                                     "[data]; or name files: test = \"data/test.txt\""),
              std::string::npos)
        << mistake(keys, "");
  }
  EXPECT_EQ(mistake("time_max = \"1h\"\n", ""), "none");
  EXPECT_EQ(mistake("best = \"cost\"\n", "test_fraction = 0.1\n"), "none");
}

TEST_F(TrainConfigTest, AProgramOfOnesOwnEndsItself) {
  for (const char* const key :
       {"best = \"cost\"", "stop_when = \"cost < 1\"", "time_max = \"2h\""}) {
    const auto job = read_job(folder_.write(
        "job.toml", std::string("[trainer]\ncommand = [\"a\"]\n[train]\n") + key + "\n"));
    ASSERT_FALSE(job) << key;
    EXPECT_NE(job.error().message.find("needs a network of [[layer]]"), std::string::npos);
    EXPECT_EQ(job.error().hint, "the program of [trainer] command decides when training ends");
  }
}

}  // namespace
}  // namespace paddle::config
