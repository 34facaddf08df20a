// Every template's prepare script makes small data, which `paddle train` learns from as far as the
// data lets it.
#include <array>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "tests/e2e/cli_local_test_cluster.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

// Under ThreadSanitizer the wide layers of ctr_dnn take minutes.
constexpr auto kTrainDeadline = std::chrono::seconds(280);

// The number that follows the last `mark`.
double last_number(const std::string& text, const std::string& mark) {
  const std::size_t at = text.rfind(mark);
  EXPECT_NE(at, std::string::npos) << mark << " is not in:\n" << text;
  return at == std::string::npos ? 0 : std::stod(text.substr(at + mark.size()));
}

class Templates : public testing::Test {
 protected:
  Templates() {
    for (const auto& entry : fs::directory_iterator(TEMPLATES_FOLDER)) {
      const fs::path to = fs::path(folder_.path()) / entry.path().filename();
      fs::create_directory(to);
      for (const auto& file : fs::directory_iterator(entry)) {
        if (file.is_regular_file())
          fs::copy(file, to / file.path().filename(), fs::copy_options::copy_symlinks);
      }
    }
  }

  std::string run(std::vector<std::string> arguments) {
    const fs::path programs = fs::path(PADDLE_PROGRAM).parent_path();
    Process process(std::move(arguments), folder_ / fmt::format("run-{}.txt", runs_++),
                    {"PATH=" + programs.string() + ":/usr/bin:/bin"});
    EXPECT_EQ(process.wait(kTrainDeadline), 0) << process.output();
    return process.output();
  }

  std::string prepare(const std::string& name, const std::vector<std::string>& arguments) {
    std::vector<std::string> all{folder_ / (name + "/prepare")};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return run(all);
  }

  // Trains in one process; the lines of its metrics file that tell of tests.
  std::string train(const std::string& name, const std::vector<std::string>& settings) {
    const std::string metrics = folder_ / (name + ".jsonl");
    std::vector<std::string> arguments{PADDLE_PROGRAM,
                                       "train",
                                       "--local",
                                       "--config=" + (folder_ / (name + "/job.toml")),
                                       "--metrics=" + metrics,
                                       "--save_dir=" + (folder_ / (name + "-save"))};
    for (const std::string& setting : settings) arguments.push_back("--set=" + setting);
    run(arguments);
    std::string tests;
    std::istringstream lines(TemporaryFolder::read(metrics));
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(R"({"kind":"test")")) tests += line + "\n";
    }
    return tests;
  }

  TemporaryFolder folder_;
  int runs_ = 0;
};

struct ClickCase {
  std::string name;
  std::string passes;
  std::string learning_rate;
};
void PrintTo(const ClickCase& click, std::ostream* out) {
  *out << click.name;
}

class ClickTemplates : public Templates, public testing::WithParamInterface<ClickCase> {};

TEST_P(ClickTemplates, LearnsProductsThatNoLinearModelCan) {
  const ClickCase& click = GetParam();
  const std::string made =
      prepare(click.name, {"--values", "5", "--examples", "20000", "--test", "5000"});
  const double best = last_number(made, "the planted model itself has AUC ");
  const double linear = last_number(made, "its linear part alone ");
  EXPECT_GT(best, linear + 0.05);
  const std::string tests =
      train(click.name, {"train.passes=" + click.passes, "train.batch_size=64",
                         "optimizer.learning_rate=" + click.learning_rate});
  EXPECT_GT(last_number(tests, R"("auc":)"), (linear + best) / 2) << made << tests;
}
INSTANTIATE_TEST_SUITE_P(All, ClickTemplates,
                         testing::Values(ClickCase{"ctr_dnn", "2", "2e-3"},
                                         ClickCase{"wide_deep", "3", "3e-3"},
                                         ClickCase{"deep_fm", "3", "5e-3"},
                                         ClickCase{"dcn", "3", "3e-3"}),
                         [](const auto& each) { return each.param.name; });

TEST_F(Templates, RecommenderLearnsTastesBeyondBiases) {
  const std::string made =
      prepare("recommender", {"--users", "200", "--items", "200", "--ratings", "30000"});
  const double best = last_number(made, "the planted model itself has RMSE ");
  const double biases = last_number(made, "its biases alone ");
  const std::string tests = train("recommender", {"optimizer.l2=1e-3"});
  EXPECT_LT(last_number(tests, R"("rmse":)"), (best + biases) / 2) << made << tests;
}

TEST_F(Templates, RecommenderTrainsOnACluster) {
  LocalCluster cluster(3);
  cluster.copy_template("recommender");
  Process preparing({cluster.folder() / "recommender/prepare", "--users", "200", "--items", "200",
                     "--ratings", "30000", "--shards", "2"},
                    folder_ / "prepare.txt");
  ASSERT_EQ(preparing.wait(), 0) << preparing.output();
  ASSERT_EQ(cluster.run({"up", "cluster.toml"}).code, 0);
  const Outcome trained =
      cluster.run({"train", "--trainers", "2", "--pservers", "1", "--set", "optimizer.l2=1e-3",
                   "--set", "train.batch_size=32", "--set", "train.passes=10", "recommender"});
  ASSERT_EQ(trained.code, 0) << trained.output;
  const double biases = last_number(preparing.output(), "its biases alone ");
  const std::vector<double> costs = held_out_costs(trained.output);
  ASSERT_EQ(costs.size(), 10U);
  EXPECT_LT(costs.back(), 0.8 * biases * biases);
  EXPECT_EQ(cluster.run({"teardown", "--yes", "--discard"}).code, 0);
}

// As README.md trains clicks: alone, on two nodes, and on each node of the cluster. An update of
// three full batches is the mistake that `batch_size_total` prevents: the job learns less.
TEST_F(Templates, ClicksAreLearnedAlikeByOneTwoAndThreeTrainers) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the wide layers take minutes, four times";
#endif
  LocalCluster cluster(3);
  cluster.copy_template("ctr_dnn");
  Process preparing({cluster.folder() / "ctr_dnn/prepare", "--values", "5", "--examples", "60000",
                     "--test", "5000"},
                    folder_ / "prepare.txt");
  ASSERT_EQ(preparing.wait(kTrainDeadline), 0) << preparing.output();
  ASSERT_EQ(cluster.run({"up", "cluster.toml"}).code, 0);
  const auto train_with = [&](const std::string& name, std::vector<std::string> options) {
    options.insert(options.begin(), {"train", "--name", name});
    options.emplace_back("ctr_dnn");
    Process training = cluster.start(options);
    EXPECT_EQ(training.wait(kTrainDeadline), 0) << training.output();
    return training.output();
  };
  const std::vector<std::string> outputs{train_with("one", {"--trainers", "1", "--pservers", "1"}),
                                         train_with("two", {"--trainers", "2", "--pservers", "1"}),
                                         train_with("three", {})};
  const double best = last_number(preparing.output(), "the planted model itself has AUC ");
  const double linear = last_number(preparing.output(), "its linear part alone ");
  const double alone = last_number(outputs[0], ", auc ");
  EXPECT_GT(alone, (linear + best) / 2);
  for (const std::string& output : outputs) {
    EXPECT_NEAR(last_number(output, ", auc "), alone, 0.01) << output;
    // The 12 files and the 256 examples of an update are divided without a remainder that matters.
    EXPECT_EQ(output.find("divide evenly"), std::string::npos) << output;
    EXPECT_EQ(output.find("train.batch_size_total = "), std::string::npos) << output;
  }
  const std::string whole = train_with("whole", {"--set", "train.batch_size=256"});
  EXPECT_NE(whole.find("one update is made of 3 x 256 examples; train.batch_size_total = 256"),
            std::string::npos)
      << whole;
  EXPECT_LT(last_number(whole, ", auc "), alone - 0.02) << whole;
  EXPECT_EQ(cluster.run({"teardown", "--yes", "--discard"}).code, 0);
}

TEST_F(Templates, DigitsReadsShiftedAndNoisyGlyphs) {
  constexpr std::array<std::array<std::string_view, 5>, 10> kGlyphs{
      {{"###", "# #", "# #", "# #", "###"},
       {"  #", " ##", "  #", "  #", "  #"},
       {"###", "  #", "###", "#  ", "###"},
       {"###", "  #", " ##", "  #", "###"},
       {"# #", "# #", "###", "  #", "  #"},
       {"###", "#  ", "###", "  #", "###"},
       {"###", "#  ", "###", "# #", "###"},
       {"###", "  #", " # ", " # ", " # "},
       {"###", "# #", "###", "# #", "###"},
       {"###", "# #", "###", "  #", "###"}}};
  Rng rng(1);
  std::string digits;
  for (std::size_t i = 0; i < 2000; ++i) {
    const std::size_t digit = i % kGlyphs.size();
    const std::size_t down = 1 + rng.below(2), right = 2 + rng.below(2);
    for (std::size_t row = 0; row < 8; ++row) {
      for (std::size_t column = 0; column < 8; ++column) {
        // Above and left of the glyph these wrap around to large numbers.
        const bool inside = row - down < 5 && column - right < 3 &&
                            kGlyphs[digit][row - down][column - right] == '#';
        digits += fmt::format("{},", (inside ? 10 : 0) + rng.below(7));
      }
    }
    digits += fmt::format("{}\n", digit);
  }
  const std::string made = prepare("digits", {folder_.write("digits.txt", digits)});
  EXPECT_NE(made.find("1600 digits in 4 files, 400 held out"), std::string::npos) << made;
  const std::string tests = train("digits", {});
  EXPECT_LT(last_number(tests, R"("classification_error":)"), 0.1) << tests;
}

constexpr std::uint64_t kTopics = 10;
constexpr std::uint64_t kWordsOfTopic = 5;

// Each sentence keeps to the words of one topic, "t<topic>w<word>".
std::string topical_sentences(int count) {
  Rng rng(2);
  std::string text;
  for (int i = 0; i < count; ++i) {
    const std::uint64_t topic = rng.below(kTopics);
    for (int j = 0; j < 8; ++j) text += fmt::format("t{}w{} ", topic, rng.below(kWordsOfTopic));
    text += '\n';
  }
  return text;
}

class WordTemplates : public Templates, public testing::WithParamInterface<const char*> {};

TEST_P(WordTemplates, WordsOfATopicAreNearest) {
  const std::string name = GetParam();
  prepare(name, {"--keep-tokens", folder_.write("text.txt", topical_sentences(4000))});
  train(name, {"train.passes=2"});
  std::vector<std::string> nearest{PADDLE_PROGRAM, "nearest", "--parameter=_proj", "--count=1",
                                   "--snapshot=" + (folder_ / (name + "-save/pass-00001"))};
  for (std::uint64_t i = 0; i < kTopics * kWordsOfTopic; ++i) {
    nearest.push_back(fmt::format("t{}w{}", i / kWordsOfTopic, i % kWordsOfTopic));
  }
  const std::string found = run(nearest);
  std::istringstream lines(found);
  std::uint64_t same = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string query, first;
    words >> query >> first;
    same += query.substr(0, 3) == first.substr(0, 3) ? 1U : 0U;
  }
  // By chance it would be 4.
  EXPECT_GT(same, 45U) << found;
}
INSTANTIATE_TEST_SUITE_P(All, WordTemplates, testing::Values("word2vec", "skipgram"),
                         [](const auto& each) { return std::string(each.param); });

// Its layers are for ten thousand words; here it has to find the topics of fifty.
TEST_F(Templates, PennTreebankNetworkLearnsWhichWordsFollow) {
  prepare("word2vec",
          {"--keep-tokens", "--minimum", "0", folder_.write("text.txt", topical_sentences(1000))});
  fs::copy_file(folder_ / "word2vec/penn_treebank.toml", folder_ / "word2vec/job.toml",
                fs::copy_options::overwrite_existing);
  const std::string tests = train("word2vec", {"train.passes=3"});
  EXPECT_LT(last_number(tests, R"("perplexity":)"), 0.5 * kTopics * kWordsOfTopic) << tests;
}

TEST_F(Templates, QuickStartTellsTwoKindsOfTextApart) {
  prepare("quick_start", {folder_.write("texts.txt", labelled_texts(4000))});
  const std::string tests = train("quick_start", {});
  EXPECT_LT(last_number(tests, R"("classification_error":)"), 0.06) << tests;
}

TEST_F(Templates, PrepareNamesTheLineThatIsNotData) {
  const std::string wrong = folder_.write("wrong.txt", "1\t2\n");
  for (const char* name : {"quick_start", "recommender", "digits"}) {
    Process process({folder_ / fmt::format("{}/prepare", name), wrong}, folder_ / "wrong.log");
    EXPECT_EQ(process.wait(), 6) << name << process.output();
    EXPECT_FALSE(fs::exists(folder_ / fmt::format("{}/data/test.txt", name)));
  }
  const std::string output = TemporaryFolder::read(folder_ / "wrong.log");
  EXPECT_NE(output.find("line 1 is not user, item, rating and time"), std::string::npos) << output;
  EXPECT_NE(output.find("line 1 is not 64 numbers and a digit"), std::string::npos) << output;
}

// Templates of one kind of data share a script by a link, which must not stop a job.
TEST_F(Templates, ALinkedScriptIsNotPushed) {
  prepare("dcn", {"--examples", "2000", "--test", "500"});
  ASSERT_TRUE(fs::is_symlink(folder_ / "dcn/prepare"));
  LocalCluster cluster(1);
  ASSERT_EQ(cluster.run({"up", "cluster.toml"}).code, 0);
  const Outcome trained = cluster.run({"train", "--set", "train.passes=1", folder_ / "dcn"});
  EXPECT_EQ(trained.code, 0) << trained.output;
  EXPECT_EQ(cluster.run({"teardown", "--yes"}).code, 0);
}

}  // namespace
}  // namespace paddle::test
