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
