// Failures of a job's processes, as train tells of them.
#include "tests/unit/cli/commands/commands_fixture.h"

namespace paddle::cli {
namespace {

TEST_F(CommandsTest, TrainNamesTheFirstCauseAndStopsTheRest) {
  trainer_exit_ = 6;
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  EXPECT_EQ(train(), 6);
  EXPECT_TRUE(err_has("trainer-0 on n-0 exited with code 6")) << err_.str();
  EXPECT_TRUE(err_has("n-0/trainer-0 | bad record in data/train-00000:7"));
  EXPECT_EQ(running(), std::vector<std::string>());
}

TEST_F(CommandsTest, AFailedJobIsStoppedOverConnectionsThatHadBroken) {
  trainer_exit_ = 6;
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  for (FakeNode& node : nodes_) node.breaks_at_stop = true;
  EXPECT_EQ(train(), 6);
  EXPECT_FALSE(err_has("some processes could not be stopped")) << err_.str();
  EXPECT_EQ(running(), std::vector<std::string>());
}

TEST_F(CommandsTest, TrainGivesUpOnAPserverThatIsNeverReady) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  nodes_[1].on_start = nullptr;
  EXPECT_EQ(train(), 4);
  EXPECT_TRUE(err_has("pserver-1 on n-1 was not ready in time"));
  EXPECT_EQ(nodes_[0].processes.front().state, ProcessState::kExited);
}

TEST_F(CommandsTest, AKilledProcessShowsThreeLinesOfItsLog) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  nodes_[1].on_start = [this](FakeNode& fake, ProcessStatus& status) {
    started(fake, status);
    if (status.name != "trainer-1") return;
    status.state = ProcessState::kKilled;
    status.signal = 9;
    fake.files[status.log] = "1\n2\n3\n4\n";
  };
  EXPECT_EQ(train(), 1);
  EXPECT_TRUE(
      err_has("error: trainer-1 on n-1 killed by signal 9 (Killed); last lines:\n"
              "  n-1/trainer-1 | 2\n"))
      << err_.str();
  EXPECT_TRUE(
      err_has("the whole log: paddlectl logs --node n-1 --job job1; continue from its last "
              "snapshot: paddlectl train --resume --name job1 w; next time, --restarts N restarts "
              "it automatically\n"))
      << err_.str();
}

TEST_F(CommandsTest, AProcessWithoutMemoryShowsWhatItHadAndWhatHelps) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  nodes_[1].on_start = [this](FakeNode& fake, ProcessStatus& status) {
    started(fake, status);
    if (status.name != "trainer-1") return;
    status.state = ProcessState::kKilled;
    status.signal = 9;
    status.out_of_memory_bytes = 3'100'000'000;
  };
  EXPECT_EQ(train(), 7);
  EXPECT_TRUE(
      err_has("error: trainer-1 on n-1 killed by the kernel: out of memory (it had 3.1 GB); last"))
      << err_.str();
  EXPECT_TRUE(err_has("hint: use a smaller batch_size or trainer_count, ")) << err_.str();
}

// The node of trainer-0 becomes silent while the job runs with restarts.
class SilentNodeOfATraining : public CommandsTest {
 protected:
  void SetUp() override {
    CommandsTest::SetUp();
    trainer_state_ = ProcessState::kRunning;
    ASSERT_EQ(run({"up", "c.toml"}), 0);
  }
  // Trainer 1 has lost a peer. `moves`: it trains on nevertheless.
  void train_with_a_silent_node(bool moves, const std::string& timeout) {
    on_pause_ = [this, moves] {
      const std::scoped_lock lock(nodes_[0].mutex, nodes_[1].mutex);
      const auto found = std::ranges::find(nodes_[1].processes, "trainer-1", &ProcessStatus::name);
      if (found == nodes_[1].processes.end()) return;
      nodes_[1].files["jobs/job1/output/pass-00000/MANIFEST"] = "";
      if (!nodes_[0].unreachable) silent_since_ = clock_.passed;
      nodes_[0].unreachable = true;
      if (found->restarts.empty()) found->restarts.push_back({4, 0, 990'000, 0});
      found->reports = true;
      if (!found->progress) found->progress.emplace().batch = 7;
      if (moves) ++found->progress->batch;
    };
    EXPECT_EQ(run({"train", "--restarts", "5", "--timeout", timeout, "--name", "job1", "w"}), 4)
        << err_.str();
  }
  std::size_t running_on_the_other() const {
    return static_cast<std::size_t>(
        std::ranges::count(nodes_[1].processes, ProcessState::kRunning, &ProcessStatus::state));
  }

  Duration::rep silent_since_ = 0;
};

TEST_F(SilentNodeOfATraining, EndsTheRestWhichMakesNoProgressWithoutIt) {
  train_with_a_silent_node(false, "30");
  EXPECT_TRUE(err_has("job1 makes no progress without it; the rest of the job was stopped"))
      << err_.str();
  EXPECT_TRUE(err_has("paddlectl train --resume --name job1 ")) << err_.str();
  EXPECT_TRUE(err_has("; if the node does not return, add --on '!n-0'\n")) << err_.str();
  EXPECT_EQ(running_on_the_other(), 0U);
  EXPECT_LT(Duration(clock_.passed - silent_since_), std::chrono::minutes(1))
      << "its restarts would go on for ten minutes";
}

TEST_F(SilentNodeOfATraining, IsAwaitedUnderRestartsAndThatIsSaid) {
  train_with_a_silent_node(false, "10m");
  for (const char* const waited : {"20s", "40s", "1m20s", "5m20s"})
    EXPECT_TRUE(err_has(fmt::format("waiting for node n-0, which has been gone for {}\n", waited)))
        << err_.str();
  EXPECT_GT(Duration(clock_.passed - silent_since_), std::chrono::minutes(9));
}

TEST_F(SilentNodeOfATraining, EndsNothingOfAJobThatGoesOn) {
  train_with_a_silent_node(true, "30");
  EXPECT_TRUE(err_has("nothing was stopped")) << err_.str();
  EXPECT_FALSE(err_has("the rest of the job was stopped")) << err_.str();
  EXPECT_EQ(running_on_the_other(), 2U);
}

TEST_F(CommandsTest, ANodeWhoseDiskIsFullIsNoTroubleOfTheNetwork) {
  trainer_exit_ = 75;
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 75) << err_.str();
  nodes_[1].push_error = Error{
      Errc::kResource, "node n-1: jobs/job1/workspace.pushed: write: No space left on device", ""};
  for (const auto& command :
       std::vector<std::vector<std::string>>{{"train", "--resume", "--name", "job1", "w"},
                                             {"train", "--name", "job2", "w"},
                                             {"up", "c.toml"}}) {
    EXPECT_EQ(run(command), 7) << command[1] << err_.str();
    EXPECT_TRUE(err_has("No space left on device")) << err_.str();
    EXPECT_TRUE(err_has("hint: ")) << err_.str();
    EXPECT_FALSE(err_has("ssh")) << err_.str();
  }
}

TEST_F(CommandsTest, TheCauseOfAFailureIsPrintedOnce) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  trainer_exit_ = 6;
  nodes_[0].on_start = [this](FakeNode& fake, ProcessStatus& status) {
    started(fake, status);
    if (status.name != "trainer-0") return;
    status.failure = Error{Errc::kFailed, "train-00000:7: bad", "mend it"};
    fake.files[status.log] = "reading\npaddle: train-00000:7: bad\nhint: mend it\n";
  };
  EXPECT_EQ(train(), 6);
  const std::string told = err_.str();
  EXPECT_TRUE(
      err_has("exited with code 6: train-00000:7: bad; last lines:\n"
              "  n-0/trainer-0 | reading\n"))
      << told;
  EXPECT_EQ(told.find("train-00000:7: bad"), told.rfind("train-00000:7: bad")) << told;
  EXPECT_EQ(told.find("mend it"), told.rfind("mend it")) << told;
}

}  // namespace
}  // namespace paddle::cli
