// [trainer] requirements: the Python packages of a program of the user's own.
#include <mutex>

#include <fmt/format.h>

#include "tests/unit/cli/commands/commands_fixture.h"

namespace paddle::cli {
namespace {

class TrainRequirements : public CommandsTest {
 protected:
  void SetUp() override {
    CommandsTest::SetUp();
    write("w/job.toml",
          "[trainer]\ncommand = [\"python3\", \"train.py\"]\nrequirements = \"packages.txt\"\n");
    write("w/packages.txt", "numpy==2.1\n");
    for (FakeNode& node : nodes_) {
      node.on_run = [this](const remote::CommandSpec& command, const remote::CommandOutput& out) {
        const std::lock_guard lock(mutex_);  // nodes are prepared at once
        commands_.push_back(command.arguments);
        out(said_, false);
        return Result<remote::CommandEnd>(remote::CommandEnd{.exit_code = exit_code_});
      };
    }
    ASSERT_EQ(run({"up", "c.toml"}), 0);
  }
  // The environment that the job's trainer gets.
  std::string environment_of(const std::string& job) {
    EXPECT_EQ(run({"train", "--name", job, "w"}), 0) << err_.str();
    const auto& words = nodes_[0].specs["trainer-0"].arguments;
    EXPECT_EQ(words.size(), 6U);
    return words.size() == 6 ? words[3] : "";
  }

  std::mutex mutex_;
  std::vector<std::vector<std::string>> commands_;
  std::string said_;
  int exit_code_ = 0;
};

TEST_F(TrainRequirements, AreInstalledOnEveryNodeAndFoundFirst) {
  const std::string venv = environment_of("job1");
  EXPECT_TRUE(err_has("packages of packages.txt on 2 nodes\n")) << err_.str();
  const auto& words = nodes_[0].specs["trainer-0"].arguments;
  EXPECT_EQ(words[0], "/bin/sh");
  EXPECT_TRUE(venv.starts_with("{root}/setup/venv-")) << venv;
  EXPECT_EQ(words[4], "python3");
  EXPECT_EQ(words[5], "train.py");
  ASSERT_EQ(commands_.size(), 2U);
  const auto& script = commands_[0];
  ASSERT_EQ(script.size(), 9U);
  EXPECT_EQ("{root}/setup/" + script[5], venv);
  EXPECT_EQ(script[6], "jobs/job1/workspace");
  EXPECT_EQ(script[8], "packages.txt");
}

TEST_F(TrainRequirements, HaveAnEnvironmentForEachContent) {
  const std::string first = environment_of("job1");
  write("w/train.py", "other code\n");
  EXPECT_EQ(environment_of("job2"), first);
  write("w/packages.txt", "numpy==2.2\n");
  const std::string second = environment_of("job3");
  EXPECT_NE(second, first);
  write("w/wheels/mine-1.0-py3-none-any.whl", "wheel");
  const std::string third = environment_of("job4");
  EXPECT_NE(third, second);
  EXPECT_EQ(commands_.back().back(), "wheels");
  write("w/packages.txt", "-r base.txt\n");
  const std::string fourth = environment_of("job5");
  write("w/base.txt", "pandas\n");
  EXPECT_NE(environment_of("job6"), fourth);
}

// The ways in which pip takes the file that a line includes.
TEST_F(TrainRequirements, FollowTheListsThatTheyInclude) {
  int job = 0;
  const auto environment = [&] { return environment_of(fmt::format("job{}", ++job)); };
  for (const char* const line :
       {"-r base.txt\n", "-rbase.txt\r\n", "numpy\n  --requirement base.txt # ours\n",
        "--requirement=base.txt", "-c base.txt\n", "-cbase.txt\n", "--constraint=./base.txt\n",
        "-r \"base.txt\"\n", "\xef\xbb\xbf-r base.txt\n", "\xef\xbb\xbf-rbase.txt\r\nnumpy\r\n",
        "numpy\r-r base.txt\r", "-r lists/more.txt\n"}) {
    write("w/packages.txt", line);
    write("w/lists/more.txt", "\xef\xbb\xbf-c../base.txt\n-r more.txt\n-r ../packages.txt\n");
    write("w/base.txt", "pandas\n");
    const std::string first = environment();
    EXPECT_EQ(environment(), first) << line;
    write("w/base.txt", "pandas==2\n");
    EXPECT_NE(environment(), first) << line;
  }
  for (const char* const line : {"numpy\n", "# -r base.txt\n", "-i base.txt\n", "-r none.txt\n",
                                 "\xef\xbb\xbf\xef\xbb\xbf-r base.txt\n"}) {
    write("w/packages.txt", line);
    write("w/base.txt", "pandas\n");
    const std::string first = environment();
    write("w/base.txt", "pandas==2\n");
    EXPECT_EQ(environment(), first) << line;
  }
}

TEST_F(TrainRequirements, ThatFailNameTheNodeAndPipsReason) {
  exit_code_ = 1;
  said_ =
      "Looking in links: wheels\n"
      "ERROR: Could not find a version that satisfies the requirement numpy==99 (from versions: )\n"
      "ERROR: No matching distribution found for numpy==99\n";
  EXPECT_EQ(run({"train", "--name", "job1", "w"}), 1);
  EXPECT_TRUE(
      err_has("node n-0: pip install -r packages.txt exited with code 1: Could not find a "
              "version that satisfies the requirement numpy==99"))
      << err_.str();
  EXPECT_TRUE(err_has("nothing was started; its last lines:\nLooking in links")) << err_.str();
  EXPECT_FALSE(nodes_[0].specs.contains("trainer-0"));
}

TEST_F(TrainRequirements, AreNamedWhereTheyCannotBeUsed) {
  fs::remove(folder_ + "/w/packages.txt");
  EXPECT_EQ(run({"train", "w"}), 2);
  EXPECT_TRUE(err_has("[trainer] requirements: no file 'packages.txt' in ")) << err_.str();
  write("w/packages.txt", "numpy\n");
  write("w/.paddleignore", "*.txt\n");
  EXPECT_EQ(run({"train", "w"}), 2);
  EXPECT_TRUE(err_has("[trainer] requirements: packages.txt is not pushed")) << err_.str();
  write("w/job.toml", std::string(kJob) + "[trainer]\nrequirements = \"packages.txt\"\n");
  EXPECT_EQ(run({"train", "w"}), 2);
  EXPECT_TRUE(err_has("'requirements' needs a program of your own, but [trainer] has no 'command'"))
      << err_.str();
}

}  // namespace
}  // namespace paddle::cli
