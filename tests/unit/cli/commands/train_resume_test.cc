// train --resume: jobs that go on, and the command that is kept for it.
#include "tests/unit/cli/commands/commands_fixture.h"

namespace paddle::cli {
namespace {

TEST_F(CommandsTest, AttachNamesTheCommandThatResumesTheJobAsItWas) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  trainer_state_ = ProcessState::kRunning;
  ASSERT_EQ(run({"train", "--detach", "--name", "job1", "--trainers", "2", "--set",
                 "train.batch_size=3", "w"}),
            0)
      << err_.str();
  for (FakeNode& node : nodes_) {
    for (ProcessStatus& status : node.processes) {
      status.state = ProcessState::kExited;
      status.exit_code = status.name.starts_with("trainer-") ? 75 : 0;
    }
  }
  EXPECT_EQ(run({"attach"}), 75) << err_.str();
  EXPECT_TRUE(
      err_has("resume with: paddlectl train --resume --name job1 --detach --trainers 2 "
              "--set train.batch_size=3 w\n"))
      << err_.str();
  EXPECT_EQ(run({"attach", "--output", "elsewhere"}), 75) << err_.str();
  EXPECT_TRUE(
      err_has("resume with: paddlectl train --resume --name job1 --set "
              "train.batch_size=3 <workspace>\n"))
      << "as the nodes tell it\n"
      << err_.str();
}

TEST_F(CommandsTest, TheCommandIsKeptBeforeAnyProcessIsStarted) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  std::string kept;
  nodes_[0].on_start = [&](FakeNode& fake, ProcessStatus& status) {
    started(fake, status);
    kept = test::TemporaryFolder::read(folder_ + "/output/job1/commands.jsonl");
  };
  ASSERT_EQ(train(), 0) << err_.str();
  EXPECT_NE(kept.find("\"paddlectl train --resume --name job1 w\""), kept.npos) << kept;
}

TEST_F(CommandsTest, AnEndedJobKeepsItsSecretWhenItCannotBeResumed) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0) << err_.str();
  const std::string file = "jobs/job1/keys/pserver-0";
  const std::string key = nodes_[0].files[file];
  ASSERT_FALSE(key.empty());
  nodes_[0].taken_ports[7164] = "pid 9 (x)";
  ASSERT_EQ(run({"train", "--resume", "--name", "job1", "w"}), 7) << err_.str();
  EXPECT_EQ(nodes_[0].files[file], key) << "restart would start it with two secrets";
  nodes_[0].taken_ports.clear();
  ASSERT_EQ(run({"train", "--resume", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_NE(nodes_[0].files[file], key);
}

TEST_F(CommandsTest, AResumedJobGetsItsSnapshotBackFromHere) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(run({"train", "--resume", "--name", "job1", "w"}), 2);
  EXPECT_TRUE(err_has("job job1 has no snapshot, on its nodes or in output/job1")) << err_.str();
  EXPECT_TRUE(nodes_[0].claimed_job.empty()) << "refused before the nodes know of it";
  EXPECT_FALSE(nodes_[0].files.contains("jobs/job1/workspace/job.toml"));
  EXPECT_FALSE(fs::exists(folder_ + "/output/job1"));
  const auto manifest = [this](const std::string& name, int pass, const std::string& base) {
    write("output/job1/" + name + "/MANIFEST",
          "snapshot format=1\nprogress pass=" + std::to_string(pass) + " step=9 seed=1\n" + base);
  };
  manifest("pass-00000", 1, "");
  manifest("pass-00001", 2, "");
  manifest("pass-00002", 3, "base crc32c=01 name=pass-00001\n");
  ASSERT_EQ(run({"train", "--resume", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_TRUE(err_has("pass-00002 brought to n-0")) << err_.str();
  EXPECT_TRUE(nodes_[0].files.contains("jobs/job1/output/pass-00002/MANIFEST"));
  EXPECT_TRUE(nodes_[0].files.contains("jobs/job1/output/pass-00001/MANIFEST"));
  EXPECT_FALSE(nodes_[1].files.contains("jobs/job1/output/pass-00002/MANIFEST"));
}

TEST_F(CommandsTest, AResumedJobShowsOnlyTheTestsToCome) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0) << err_.str();
  ASSERT_TRUE(out_has("pass 1: held-out"));
  nodes_[0].on_start = [this](FakeNode& fake, ProcessStatus& status) {
    std::string& metrics = fake.files["jobs/job1/node_0/metrics.jsonl"];
    const std::string before = metrics;
    started(fake, status);
    metrics = before;
    if (status.name == "trainer-0")
      metrics += "{\"kind\":\"test\",\"pass\":1,\"samples\":1,\"cost\":0.25}\n";
  };
  ASSERT_EQ(run({"train", "--resume", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_FALSE(out_has("pass 1: ")) << out_.str();
  EXPECT_TRUE(out_has("pass 2: held-out cost 0.25")) << out_.str();
  EXPECT_TRUE(err_has("continuing after pass 1\n")) << err_.str();
}

}  // namespace
}  // namespace paddle::cli
