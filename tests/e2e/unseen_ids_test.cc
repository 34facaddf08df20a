// Ids that training never saw: one answer of test, predict and the tests within training, which is
// that of the mean of initial values, unless the table draws unseen ids.
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/model_life_fixture.h"

namespace paddle::test {
namespace {

constexpr const char* kJob = R"toml(
[data]
train = "data/train.csv-*"
test = "data/test.csv"
format = "csv"
columns = ["click", "city", "hour"]
[[data.slot]]
name = "click"
type = "id"
[[data.slot]]
name = "city"
type = "hash"
[[data.slot]]
name = "hour"
type = "float"
[[layer]]
name = "cities"
type = "embedding"
input = ["city"]
size = 8
weight = {{ initial_mean = {}, initial_std = 0.5, sparse = true{} }}
[[layer]]
name = "hidden"
type = "fc"
input = ["cities", "hour"]
size = 8
activation = "relu"
[[layer]]
name = "logit"
type = "fc"
input = ["hidden"]
size = 1
[[layer]]
name = "cost"
type = "binary_cross_entropy"
input = ["logit"]
label = "click"
[optimizer]
method = "adam"
learning_rate = 0.01
[train]
passes = 2
batch_size = 16
)toml";

// Records of `cities` cities whose names begin with `name`.
std::string records(const std::string& name, int cities, int count) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += fmt::format("{},{}{},{}\n", i % 3 == 0 ? 1 : 0, name, i % cities, 0.1 * (i % 7));
  return text;
}

class UnseenIds : public ModelLife {
 protected:
  // Trains the job, which is tested on seen and unseen cities, and returns the lines of its tests.
  std::vector<std::string> train(const std::string& mean, const std::string& more,
                                 const std::string& flags = "") {
    write(folder_, mean, more);
    folder_.write("new.csv", records("new", 25, 50));
    folder_.write("same.csv", "0,a,0.5\n1,b,0.5\n0,c,0.5\n1,,0.5\n");
    succeed("paddle train --local --config=job.toml --save_dir=save --metrics=lines " + flags);
    std::vector<std::string> tests;
    for (const std::string& line : lines_of(TemporaryFolder::read(folder_ / "lines")))
      if (line.starts_with(R"({"kind":"test")")) tests.push_back(line);
    return tests;
  }
  static void write(const TemporaryFolder& to, const std::string& mean, const std::string& more) {
    to.write("job.toml", fmt::format(fmt::runtime(kJob), mean, more));
    to.write("data/train.csv-0", records("city", 10, 160));
    to.write("data/train.csv-1", records("town", 10, 160));
    to.write("data/test.csv", records("city", 10, 40) + records("new", 25, 50));
  }
  // Scores of records that differ in their unseen city alone.
  std::set<std::string> scores() {
    std::set<std::string> all;
    for (const std::string& line :
         lines_of(succeed("paddle predict --snapshot=save/pass-00001 --data=same.csv").out))
      all.insert(line.substr(2));
    return all;
  }
  void expect_a_warning(const std::string& words) {
    for (const char* const command : {"predict", "test"}) {
      const Ran ran =
          succeed(fmt::format("paddle {} --snapshot=save/pass-00001 --data=new.csv", command));
      EXPECT_EQ(ran.error, "paddle: warning: " + words + "\n") << command;
    }
  }
};

TEST_F(UnseenIds, AreZerosInEveryCommandAndInTheTestsOfTraining) {
  const auto tests = train("0.0", "");
  EXPECT_EQ(scores().size(), 1U);
  expect_a_warning("25 of 25 distinct ids do not occur in the training data; each reads as zeros");
  ASSERT_EQ(tests.size(), 2U);
  for (int pass = 0; pass < 2; ++pass) {
    const Ran tested = succeed(fmt::format("paddle test --snapshot=save/pass-0000{} --json", pass));
    EXPECT_EQ(figures(tested.out), figures(tests[static_cast<std::size_t>(pass)]));
    EXPECT_EQ(field(tested.out, "ids"), 35);
    EXPECT_EQ(field(tested.out, "unseen_ids"), 25);
  }
}

TEST_F(UnseenIds, AreTheMeanWhereThatIsNotZero) {
  train("0.25", "", "--set=optimizer.average_window=0.5");
  EXPECT_EQ(scores().size(), 1U);
  expect_a_warning(
      "25 of 25 distinct ids do not occur in the training data; each reads as the mean of its "
      "table's initial values");
}

TEST_F(UnseenIds, AreDrawnWhereTheTableSaysSo) {
  const auto tests = train("0.0", ", unseen = \"draw\"");
  EXPECT_EQ(scores().size(), 4U);
  EXPECT_EQ(scores(), scores());
  expect_a_warning(
      "25 of 25 distinct ids do not occur in the training data; each reads as the initial value "
      "that training would draw for it");
  const Ran tested = succeed("paddle test --snapshot=save/pass-00001 --json");
  EXPECT_EQ(figures(tested.out), figures(tests.back()));
}

TEST_F(UnseenIds, AreSaidToHaveNoRowWhereATableMayHaveDroppedThem) {
  train("0.0", ", entry_count = 2");
  expect_a_warning(
      "25 of 25 distinct ids have no row: training never saw them, or their table did not keep "
      "them; each reads as zeros");
}

TEST_F(UnseenIds, TestsThroughPserversHaveTheDigitsOfTheSnapshot) {
  for (const char* const average : {"0.0", "0.5"}) {
    Job job;
    write(job.folder(), "0.25", "");
    ASSERT_TRUE(job.run("job", {2, 1, 1, 2},
                        {"--set=train.snapshots_kept=0",
                         fmt::format("--set=optimizer.average_window={}", average)}))
        << job.output("job", 0);
    expect_the_digits_of(job, 2);
  }
}

}  // namespace
}  // namespace paddle::test
