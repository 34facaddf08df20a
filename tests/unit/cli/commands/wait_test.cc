#include "tests/unit/cli/commands/commands_fixture.h"

namespace paddle::cli {
namespace {

class Wait : public CommandsTest {
 protected:
  void SetUp() override {
    CommandsTest::SetUp();
    ASSERT_EQ(run({"up", "c.toml"}), 0);
  }
  void start(const std::string& job, int exit_code) {
    trainer_state_ = ProcessState::kRunning;
    ASSERT_EQ(run({"train", "--detach", "--name", job, "w"}), 0) << err_.str();
    exit_codes_[job] = exit_code;
  }
  void end(const std::string& job) {
    for (FakeNode& node : nodes_) {
      for (ProcessStatus& process : node.processes) {
        if (process.job != job) continue;
        process.state = ProcessState::kExited;
        const bool is_trainer = process.name.starts_with("trainer-");
        process.exit_code = is_trainer ? exit_codes_[job] : 0;
        process.ended_unix_ms = 500;
      }
    }
  }

  std::map<std::string, int> exit_codes_;
};

TEST_F(Wait, ReturnsWhenTheJobHasEndedWithItsExitCode) {
  const std::map<int, std::string> states{{0, "done"}, {6, "failed"}, {75, "stopped"}};
  for (const auto& [code, state] : states) {
    const std::string job = "job" + std::to_string(code);
    start(job, code);
    int looks = 0;
    on_pause_ = [&] {
      if (++looks == 5) end(job);
    };
    EXPECT_EQ(run({"wait"}), code) << err_.str();
    EXPECT_EQ(out_.str(), job + ": " + state + "\n") << err_.str();
    EXPECT_GE(looks, 5);
    on_pause_ = nullptr;
    EXPECT_EQ(run({"wait", job}), code) << "it has ended already: " << err_.str();
  }
  EXPECT_EQ(run({"wait", "job6"}), 6);
  EXPECT_TRUE(err_has("trainer-0 on n-0 exited with code 6")) << err_.str();
  EXPECT_TRUE(err_has("| bad record in data/train-00000:7")) << err_.str();
}

TEST_F(Wait, OfSeveralJobsTheFirstThatFailedGivesTheCode) {
  for (const auto& [job, code] : {std::pair("a", 0), std::pair("b", 7), std::pair("c", 6)}) {
    start(job, code);
    end(job);
  }
  EXPECT_EQ(run({"wait", "a", "c", "b"}), 6) << err_.str();
  EXPECT_EQ(out_.str(), "a: done\nc: failed\nb: failed\n");
  EXPECT_EQ(run({"wait", "a", "b", "--json"}), 7) << err_.str();
  EXPECT_EQ(out_.str().find(R"([{"job": "a", "state": "done", "exit_code": 0, "message": null}, )"
                            R"({"job": "b", "state": "failed", "exit_code": 7, "message": ")"),
            0U)
      << out_.str();
  EXPECT_EQ(run({"wait", "a", "d"}), 2);
  EXPECT_TRUE(err_has("this cluster has no job 'd'")) << err_.str();
  EXPECT_EQ(out_.str(), "") << "all jobs are found before the first is waited for";
}

TEST_F(Wait, GivesUpAtTheLimitAndAtCtrlC) {
  start("job1", 0);
  EXPECT_EQ(run({"wait", "--timeout", "30s", "job1"}), 4) << err_.str();
  EXPECT_EQ(out_.str(), "job1: running\n");
  EXPECT_TRUE(err_has("job1 still runs at the end of --timeout")) << err_.str();
  EXPECT_EQ(running().size(), 4U) << "nothing is stopped";
  EXPECT_EQ(run({"wait", "--timeout", "30s", "--json", "job1"}), 4);
  EXPECT_TRUE(out_has(R"("state": "running", "exit_code": null)")) << out_.str();
  on_pause_ = [&] { interrupted_ = true; };
  EXPECT_EQ(run({"wait", "job1"}), 130) << err_.str();
  EXPECT_EQ(running().size(), 4U);
}

}  // namespace
}  // namespace paddle::cli
