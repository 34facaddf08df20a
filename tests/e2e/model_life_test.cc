// A model's life after training: snapshots of real templates are tested and asked for predictions,
// without the job.toml and the dictionary they were trained with.
#include <algorithm>
#include <cmath>
#include <regex>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/model_life_fixture.h"

namespace paddle::test {
namespace {

// The share of pairs of a click and none that the scores order right: not as the engine has it.
double auc_of(const std::vector<std::string>& lines) {
  std::vector<std::pair<double, int>> scored;
  for (const std::string& line : lines)
    scored.emplace_back(std::stod(line.substr(line.find(',') + 1)), line[0] - '0');
  std::ranges::sort(scored);
  double ranks = 0, positives = 0;
  for (std::size_t i = 0; i < scored.size();) {
    std::size_t end = i;
    while (end < scored.size() && scored[end].first == scored[i].first) ++end;
    const double rank = static_cast<double>(i + end + 1) / 2;
    for (; i < end; ++i) {
      if (scored[i].second == 0) continue;
      ranks += rank;
      ++positives;
    }
  }
  const double negatives = static_cast<double>(scored.size()) - positives;
  return (ranks - positives * (positives + 1) / 2) / (positives * negatives);
}

// Two threads multiply at once, and OpenBLAS does so in no thread of its own. One thread may differ
// in the last digits: it adds up the gradients of a batch in one piece.
TEST_F(ModelLife, ThreadsOfATrainerGiveTheSameDigitsEachTime) {
  train("ctr_dnn", kClicks, "--num_passes=1");
  succeed("cp ctr_dnn-save/pass-00000/job.toml ctr_dnn");
  std::string expected;
  for (int time = 0; time < 4; ++time) {
    succeed(
        "rm -rf save lines && paddle train --local --config=ctr_dnn/job.toml --save_dir=save "
        "--metrics=lines --set=train.batch_size=64 --num_passes=1 --trainer_count=2");
    const auto lines = lines_of(TemporaryFolder::read(folder_ / "lines"));
    const auto test = std::ranges::find_if(
        lines, [](const std::string& line) { return line.starts_with(R"({"kind":"test")"); });
    ASSERT_NE(test, lines.end());
    if (expected.empty()) expected = figures(*test);
    EXPECT_EQ(figures(*test), expected) << time;
  }
  const std::string version = succeed("paddle version").out;
  EXPECT_NE(version.find("threads of its own: 0"), std::string::npos) << version;
}

TEST_F(ModelLife, ClicksAreTestedAndPredicted) {
  const auto tests =
      train("ctr_dnn", kClicks, "--num_passes=2 --trainer_count=2 --set=train.batch_size=64");
  expect_the_digits_of_training("ctr_dnn", tests);
  const std::string saved = "ctr_dnn-save/pass-00001";
  EXPECT_EQ(TemporaryFolder::read(folder_ / (saved + "/path.txt")), "job.toml");
  EXPECT_EQ(TemporaryFolder::read(folder_ / (saved + "/job.toml")), job_);

  // A line a record, in their order, whatever the number of threads and of files.
  const std::string predict = "paddle predict --snapshot=" + saved + " --data=";
  const Ran one = succeed(predict + "ctr_dnn/data/test.txt --threads=1");
  const auto lines = lines_of(one.out);
  const auto records = lines_of(TemporaryFolder::read(folder_ / "ctr_dnn/data/test.txt"));
  ASSERT_EQ(lines.size(), records.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    ASSERT_TRUE(std::regex_match(lines[i], std::regex(R"([01],[0-9.e-]+)"))) << lines[i];
    ASSERT_EQ(lines[i][0], records[i][0]) << i;
  }
  EXPECT_EQ(one.out, succeed(predict + "ctr_dnn/data/test.txt --threads=5").out);
  EXPECT_EQ(one.out, succeed("cat ctr_dnn/data/test.txt | " + predict + "- --threads=3").out);
  succeed("split -l 700 -d ctr_dnn/data/test.txt ctr_dnn/part- && gzip ctr_dnn/part-00");
  EXPECT_EQ(one.out, succeed(predict + "'ctr_dnn/part-*'").out);
  EXPECT_EQ(one.out, succeed("cd ctr_dnn && paddle predict --snapshot=../" + saved +
                             " --data='../ctr_dnn/part-*' --set=data.files_at_once=2")
                         .out);

  const double auc = field(tests.back(), "auc");
  EXPECT_GT(auc, 0.6);
  EXPECT_NEAR(auc_of(lines), auc, 1e-4);

  const auto objects = lines_of(succeed(predict + "ctr_dnn/data/test.txt --output=jsonl").out);
  ASSERT_EQ(objects.size(), lines.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::size_t comma = lines[i].find(',');
    EXPECT_EQ(objects[i], fmt::format(R"({{"label":{},"score":{}}})", lines[i].substr(0, comma),
                                      lines[i].substr(comma + 1)));
  }
  // The logit below the probability, and a layer of embeddings that others take over in training.
  const auto logits = lines_of(succeed(predict + "ctr_dnn/data/test.txt --layer=click").out);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const double logit = std::stod(logits[i].substr(2));
    EXPECT_NEAR(1 / (1 + std::exp(-logit)), std::stod(lines[i].substr(2)), 1e-6);
  }
  const auto factors = lines_of(succeed(predict + "ctr_dnn/data/test.txt --layer=categories").out);
  EXPECT_EQ(std::ranges::count(factors.front(), ','), 26 * 10);
  EXPECT_EQ(succeed(predict + "ctr_dnn/data/test.txt | head -n 1").out, lines.front() + "\n");
  EXPECT_EQ(succeed(predict + "ctr_dnn/data/test.txt | head -n 1").error, "");

  // Ids that the table lacks are counted, and read as zeros: a record has one of 26.
  EXPECT_EQ(one.error.find("distinct ids"), std::string::npos) << one.error;
  succeed("sed 's/[0-9a-f]*$/feedbeef/' ctr_dnn/data/test.txt >ctr_dnn/other.txt");
  const Ran other = succeed(predict + "ctr_dnn/other.txt");
  EXPECT_EQ(lines_of(other.out).size(), records.size());
  EXPECT_NE(other.error.find("warning: 1 of "), std::string::npos) << other.error;
  EXPECT_NE(other.error.find("distinct ids do not occur in the training data; each reads as zeros"),
            std::string::npos)
      << other.error;
  const Ran tested = succeed("paddle test --snapshot=" + saved + " --data=ctr_dnn/other.txt");
  EXPECT_NE(tested.out.find("Test samples=2000 cost="), std::string::npos) << tested.out;
  EXPECT_NE(tested.error.find("warning: 1 of "), std::string::npos) << tested.error;
}

TEST_F(ModelLife, WordsAreTestedAndPredicted) {
  folder_.write("text.txt", topical_text());
  const auto tests = train("word2vec", "--keep-tokens --minimum 0 text.txt", "--num_passes=2");
  expect_the_digits_of_training("word2vec", tests);
  const std::string predict =
      "paddle predict --snapshot=word2vec-save/pass-00001 --data=word2vec/data/test.txt";
  const Ran predicted = succeed(predict);
  // The next word, the likeliest word and how likely that is.
  double right = 0;
  const auto lines = lines_of(predicted.out);
  ASSERT_EQ(lines.size(), static_cast<std::size_t>(field(tests.back(), "samples")));
  for (const std::string& line : lines) {
    std::smatch parts;
    ASSERT_TRUE(std::regex_match(line, parts, std::regex(R"((\d+),(\d+),([0-9.e-]+))"))) << line;
    right += parts[1] == parts[2] ? 1 : 0;
    EXPECT_LE(std::stod(parts[3]), 1);
  }
  EXPECT_NEAR(1 - right / static_cast<double>(lines.size()),
              field(tests.back(), "classification_error"), 1e-6);
  EXPECT_EQ(predicted.out, succeed(predict + " --threads=3").out);
  const auto hidden = lines_of(succeed(predict + " --layer=hidden --output=jsonl").out);
  EXPECT_TRUE(hidden.front().starts_with(R"({"label":)")) << hidden.front();
  EXPECT_EQ(std::ranges::count(hidden.front(), ','), 256);
}

TEST_F(ModelLife, ASampledCostIsTestedAndHasNoScore) {
  folder_.write("text.txt", topical_text());
  const auto tests = train("skipgram", "--keep-tokens --minimum 0 text.txt", "--num_passes=1");
  expect_the_digits_of_training("skipgram", tests);
  const std::string predict =
      "paddle predict --snapshot=skipgram-save/pass-00000 --data=skipgram/data/test.txt";
  fails(predict, 2, "is of type negative_sampling", "--layer=word prints its input");
  EXPECT_EQ(std::ranges::count(lines_of(succeed(predict + " --layer=word").out).front(), ','), 64);
}

std::string labelled_lines() {
  std::string text;
  for (int i = 0; i < 400; ++i)
    text += fmt::format("{}\tword{} word{} same\n", i % 2, i % 2 + 2 * (i % 5), i % 9);
  return text;
}

TEST_F(ModelLife, ClassesAndNumbersHaveScoresToo) {
  folder_.write("texts.txt", labelled_lines());
  const auto texts = train("quick_start", "texts.txt", "--num_passes=1");
  expect_the_digits_of_training("quick_start", texts);
  double wrong = 0;
  const auto scores = lines_of(
      succeed("paddle predict --snapshot=quick_start-save/pass-00000 --workspace=quick_start "
              "--data='data/test.txt'")
          .out);
  for (const std::string& line : scores) {
    const bool is_second = std::stod(line.substr(2)) > 0.5;
    wrong += is_second == (line[0] == '1') ? 0 : 1;
  }
  EXPECT_NEAR(wrong / static_cast<double>(scores.size()),
              field(texts.back(), "classification_error"), 1e-6);

  const auto ratings =
      train("recommender", "--users 50 --items 50 --ratings 3000", "--num_passes=1");
  expect_the_digits_of_training("recommender", ratings);
  double squares = 0;
  const auto stars = lines_of(succeed("paddle predict --snapshot=recommender-save/pass-00000 "
                                      "--data=recommender/data/test.txt")
                                  .out);
  for (const std::string& line : stars) {
    const double off = std::stod(line) - std::stod(line.substr(line.find(',') + 1));
    squares += off * off;
  }
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(stars.size())), field(ratings.back(), "rmse"),
              1e-5);
}

TEST_F(ModelLife, OfATrainerGroupWithoutPservers) {
  Job job;
  job.write_dense_ngram({90, 0, 40});
  ASSERT_TRUE(job.run(
      "job", {3, 0},
      {"--num_passes=2", "--set=train.snapshots_kept=0", "--set=data.test=data/train.txt-00002"}))
      << job.output("job", 0);
  expect_the_digits_of(job, 2);
  const Ran predicted = succeed(fmt::format(
      "paddle predict --snapshot={}/pass-00001 --workspace={} --data=data/train.txt-00002",
      job.save_dir("job"), job.folder().path()));
  EXPECT_NE(predicted.out, "");
}

// Rows that wait for admission, that differ from a full snapshot, and averages of parameters.
TEST_F(ModelLife, OfSeveralTrainersWithEveryKindOfTable) {
  Job job;
  job.write_clicks(2, 400);
  const std::vector<std::string> flags{"--num_passes=3",
                                       "--set=train.snapshots_kept=0",
                                       "--set=train.full_snapshot_period=3",
                                       "--set=data.test=data/train.txt-00001",
                                       "--set=optimizer.average_window=0.5",
                                       "--set=optimizer.method=adagrad"};
  ASSERT_TRUE(job.run("job", {2, 2, 1, 2}, flags)) << job.output("job", 0);
  expect_the_digits_of(job, 3);
}

}  // namespace
}  // namespace paddle::test
