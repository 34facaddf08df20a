// paddlectl test: the engine's test of a snapshot, where that lies.
#include "tests/unit/cli/commands/commands_fixture.h"

namespace paddle::cli {
namespace {

class TestCommand : public CommandsTest {
 protected:
  void SetUp() override {
    CommandsTest::SetUp();
    for (FakeNode& node : nodes_) {
      node.on_run = [this, &node](const remote::CommandSpec& command,
                                  const remote::CommandOutput& output) {
        ran_on_ = static_cast<int>(&node - nodes_.data());
        ran_ = command.arguments;
        output(out_of_engine_, false);
        output(error_of_engine_, true);
        return remote::CommandEnd{.exit_code = exit_code_};
      };
    }
    ASSERT_EQ(run({"up", "c.toml"}), 0);
    ASSERT_EQ(train(), 0) << err_.str();
  }
  bool ran_with(const std::string& argument) const {
    return std::ranges::find(ran_, argument) != ran_.end();
  }

  int ran_on_ = -1;
  std::vector<std::string> ran_;
  std::string out_of_engine_ = "Test samples=5 cost=0.5\n";
  std::string error_of_engine_;
  int exit_code_ = 0;
};

TEST_F(TestCommand, RunsTheEngineWhereTheSnapshotLies) {
  ASSERT_EQ(run({"test"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), "Test samples=5 cost=0.5\n");
  EXPECT_TRUE(err_has("testing pass-00000 of job job1 on n-0")) << err_.str();
  EXPECT_EQ(ran_on_, 0);
  ASSERT_GE(ran_.size(), 2U);
  EXPECT_NE(ran_[0].find("/bin/paddle-"), std::string::npos) << ran_[0];
  EXPECT_EQ(ran_[1], "test");
  const auto ends_with = [this](std::size_t i, const std::string& text) {
    return i < ran_.size() && ran_[i].ends_with(text) &&
           ran_[i].find("{root}") == std::string::npos;
  };
  EXPECT_TRUE(ends_with(2, "/jobs/job1/output/pass-00000"));
  EXPECT_TRUE(ends_with(3, "/jobs/job1/workspace"));
  EXPECT_TRUE(ran_with("--allow_pipe_command")) << "the job has run it there";
  EXPECT_EQ(ran_.size(), 5U);

  ASSERT_EQ(run({"test", "job1", "--pass", "best", "--data", "new/*.txt"}), 0) << err_.str();
  EXPECT_TRUE(ran_with("--data=new/*.txt"));
  out_of_engine_ = "{\"samples\":5,\"cost\":0.5}\n";
  error_of_engine_ = "paddle: 3 of 5 look-ups\n";
  ASSERT_EQ(run({"test"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), out_of_engine_);
  EXPECT_TRUE(err_has("paddle: 3 of 5 look-ups")) << err_.str();
  ASSERT_EQ(run({"test", "--json"}), 0) << err_.str();
  EXPECT_TRUE(ran_with("--json"));
  EXPECT_EQ(out_.str(), "{\"samples\": 5, \"cost\": 0.5}\n");
}

TEST_F(TestCommand, ANodesTextIsNotPrintedAsJson) {
  for (const char* const text : {"\x1b]0;x\a{}", "[[1]]", "{} {}", ""}) {
    out_of_engine_ = text;
    EXPECT_EQ(run({"test", "--json"}), 1) << text;
    EXPECT_EQ(out_.str(), "") << text;
  }
  out_of_engine_ = "{\"\\u001b[2J\":1}\n";
  EXPECT_EQ(run({"test", "--json"}), 0);
  EXPECT_EQ(out_.str().find('\x1b'), std::string::npos);
}

TEST_F(TestCommand, AnInterruptionIsToldAsOne) {
  for (FakeNode& node : nodes_) {
    node.on_run = [this](const remote::CommandSpec&, const remote::CommandOutput&) {
      interrupted_ = true;
      return remote::CommandEnd{.signal = 15};
    };
  }
  EXPECT_EQ(run({"test"}), 130);
  EXPECT_FALSE(err_has("signal 15")) << err_.str();
  interrupted_ = false;
}

TEST_F(TestCommand, ATestThatTakesTooLongNamesTheOption) {
  for (FakeNode& node : nodes_) {
    node.on_run = [](const remote::CommandSpec&, const remote::CommandOutput&) {
      return remote::CommandEnd{.timed_out = true};
    };
  }
  EXPECT_EQ(run({"test"}), 4);
  EXPECT_TRUE(err_has("--timeout DURATION")) << err_.str();
}

TEST_F(TestCommand, WhatWouldBeIgnoredIsRefused) {
  EXPECT_EQ(run({"test", "--data", "-"}), 2);
  EXPECT_TRUE(err_has("use paddle test --snapshot=DIR --data=-")) << err_.str();
  EXPECT_EQ(run({"test", "--workspace", "w"}), 2);
  EXPECT_TRUE(err_has("--workspace needs --snapshot")) << err_.str();
  EXPECT_EQ(ran_on_, -1);
}

TEST_F(TestCommand, TheEnginesErrorIsItsOwn) {
  exit_code_ = 6;
  out_of_engine_.clear();
  error_of_engine_ = "paddle: unknown layer 'x'\nhint: layers are a, b\n";
  EXPECT_EQ(run({"test"}), 6);
  EXPECT_TRUE(err_has("node n-0: unknown layer 'x'\nhint: layers are a, b\n")) << err_.str();
}

TEST_F(TestCommand, DataThatIsNotThereHasTheHintOfThisCommand) {
  exit_code_ = 6;
  out_of_engine_.clear();
  error_of_engine_ = "paddle: no file matches 'x'\nhint: --data=GLOB names files\n";
  EXPECT_EQ(run({"test", "--data", "x"}), 6);
  EXPECT_TRUE(err_has("node n-0: no file matches 'x'")) << err_.str();
  EXPECT_TRUE(
      err_has("hint: --data GLOB names files in the job's workspace on the node; for files "
              "on this machine: paddlectl test --snapshot"))
      << err_.str();
}

TEST_F(TestCommand, ASnapshotThatIsNotThereIsNamed) {
  EXPECT_EQ(run({"test", "--pass", "pass-00007"}), 2);
  EXPECT_TRUE(err_has("the nodes have no snapshot of pass 8 (pass-00007) of job job1"))
      << err_.str();
  EXPECT_EQ(run({"test", "--pass", "all"}), 2);
  EXPECT_TRUE(err_has("only one snapshot can be tested at a time")) << err_.str();
  nodes_[0].files.erase("jobs/job1/output/pass-00000/MANIFEST");
  EXPECT_EQ(run({"test"}), 2);
  EXPECT_TRUE(err_has("job job1 has no snapshot on its nodes")) << err_.str();
  EXPECT_TRUE(err_has("--snapshot output/<job>/pass-0000N")) << err_.str();
  EXPECT_EQ(ran_on_, -1);
}

TEST_F(TestCommand, OneHereNeedsNoCluster) {
  write("paddle", "#!/bin/sh\n[ $1 = version ] || echo \"here: $*\"\n");
  fs::permissions(folder_ + "/paddle", fs::perms::owner_all);
  ASSERT_EQ(run({"test", "--snapshot", "output/job1/pass-00000", "--workspace", "w", "--data",
                 "new.txt"}),
            0)
      << err_.str();
  EXPECT_EQ(out_.str(),
            "here: test --snapshot=output/job1/pass-00000 --workspace=w "
            "--data=new.txt\n");
  EXPECT_EQ(ran_on_, -1);
  EXPECT_EQ(run({"test", "--snapshot", "x", "--pass", "last"}), 2);

  ASSERT_EQ(run({"test", "--snapshot", "x", "--allow-pipe-command"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), "here: test --snapshot=x --workspace=. --allow_pipe_command\n");
  // With --json one value, whatever is on stderr.
  write("paddle", "#!/bin/sh\n[ $1 = version ] || { echo W >&2; echo '{\"cost\":0.5}'; }\n");
  ASSERT_EQ(run({"test", "--snapshot", "x", "--json"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), "{\"cost\": 0.5}\n");
}

}  // namespace
}  // namespace paddle::cli
