// The template torch_ctr: a torch program whose table is on the pservers, on every node.
#include <signal.h>

#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include "tests/e2e/cli_local_test_cluster.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

constexpr auto kTrainDeadline = std::chrono::seconds(200);

// The number that follows the last `mark`.
double last_number(const std::string& text, const std::string& mark) {
  const std::size_t at = text.rfind(mark);
  EXPECT_NE(at, std::string::npos) << mark << " is not in:\n" << text;
  return at == std::string::npos ? 0 : std::stod(text.substr(at + mark.size()));
}

class TorchCtr : public testing::Test {
 protected:
  void SetUp() override {
    Process torch({"/usr/bin/python3", "-c", "import numpy, tomllib, torch.distributed"},
                  cluster.folder() / "torch.txt");
    if (torch.wait() != 0) GTEST_SKIP() << "there is no python3-torch with Python 3.11";
    cluster.copy_template("torch_ctr");
    fs::copy_file(fs::path(TEMPLATES_FOLDER) / "torch_ctr/train.py",
                  cluster.folder() / "torch_ctr/train.py");
    Process preparing({cluster.folder() / "torch_ctr/prepare", "--values", "5", "--examples",
                       "20000", "--test", "5000"},
                      cluster.folder() / "prepare.txt");
    ASSERT_EQ(preparing.wait(), 0) << preparing.output();
    prepared = preparing.output();
    ASSERT_EQ(cluster.run({"up", "cluster.toml"}).code, 0);
  }
  void TearDown() override {
    if (IsSkipped()) return;
    EXPECT_EQ(cluster.run({"teardown", "--yes", "--discard"}).code, 0);
    EXPECT_TRUE(cluster.nothing_left());
  }
  Outcome train(std::vector<std::string> options) {
    options.insert(options.begin(), {"train", "--name", "job", "--set", "train.batch_size_total=64",
                                     "--set", "optimizer.learning_rate=2e-3"});
    options.emplace_back("torch_ctr");
    Process training = cluster.start(options);
    const auto code = training.wait(kTrainDeadline);
    return {code.value_or(-1), training.output()};
  }

  LocalCluster cluster{2};
  std::string prepared;
};

TEST_F(TorchCtr, LearnsProductsThatNoLinearModelCan) {
  // No --pservers: [[table]] asks for them.
  const Outcome trained = train({"--trainers", "2", "--set", "train.passes=2"});
  ASSERT_EQ(trained.code, 0) << trained.output;
  const double best = last_number(prepared, "the planted model itself has AUC ");
  const double linear = last_number(prepared, "its linear part alone ");
  EXPECT_GT(last_number(trained.output, ", auc "), (linear + best) / 2)
      << prepared << trained.output;
  EXPECT_EQ(held_out_costs(trained.output).size(), 2U) << trained.output;
  EXPECT_TRUE(fs::exists(cluster.folder() / "output/job/pass-00001/model/state"));
}

// On another number of pservers; the layers continue, too, or the cost would begin at that of the
// first pass.
TEST_F(TorchCtr, ContinuesAfterAStopWithItsLayers) {
  const Outcome trained = train({"--trainers", "2", "--set", "train.passes=1"});
  ASSERT_EQ(trained.code, 0) << trained.output;
  ASSERT_EQ(train({"--trainers", "2", "--set", "train.passes=50", "--resume", "--detach"}).code, 0);
  const Outcome stopped = cluster.run({"stop", "--job", "job"});
  ASSERT_EQ(stopped.code, 0) << stopped.output;
  const Outcome ended = cluster.run({"attach", "--job", "job"});
  ASSERT_EQ(ended.code, 75) << ended.output;
  const Outcome resumed =
      train({"--trainers", "2", "--pservers", "2", "--set", "train.passes=3", "--resume"});
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  const std::vector<double> first = held_out_costs(trained.output);
  const std::vector<double> after = held_out_costs(resumed.output);
  ASSERT_FALSE(first.empty());
  ASSERT_FALSE(after.empty()) << resumed.output;
  EXPECT_LT(after.front(), first.front()) << resumed.output;
}

// The layers are lost with their ranks, so the rows of the pservers go back as well.
TEST_F(TorchCtr, GoesBackToItsSnapshotWhenATrainerIsLost) {
  Process training =
      cluster.start({"train", "--name", "job", "--trainers", "2", "--restarts", "4", "--set",
                     "train.batch_size_total=64", "--set", "train.passes=3", "torch_ctr"});
  const auto deadline = std::chrono::steady_clock::now() + kTrainDeadline;
  while (training.output().find("pass 1 of 3") == std::string::npos &&
         std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const int victim = cluster.find_engine("train.py");
  ASSERT_GT(victim, 0) << training.output();
  ::kill(victim, SIGKILL);
  EXPECT_EQ(training.wait(kTrainDeadline), 0) << training.output();
  const std::string output = training.output();
  EXPECT_NE(output.find("was killed by signal 9"), std::string::npos) << output;
  const std::vector<double> costs = held_out_costs(output);
  ASSERT_EQ(costs.size(), 3U) << output;
  EXPECT_LT(costs[1], costs[0]) << output;  // not begun anew
}

}  // namespace
}  // namespace paddle::test
