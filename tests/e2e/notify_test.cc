// [notify] in whole jobs on local nodes: each event is reported once, by the right supervisor, also
// when no paddlectl runs.
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <sstream>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "base/json_reader.h"
#include "tests/e2e/cli_local_test_cluster.h"

namespace paddle::test {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kDeadline(60);
// Longer than a supervisor needs to report what it has seen.
constexpr std::chrono::seconds kQuiet(3);

class NotifyJob : public testing::Test {
 protected:
  void SetUp() override {
    cluster_.copy_template("quick_start");
    ASSERT_EQ(cluster_.prepare("quick_start", {"--shards", "2"}, labelled_texts(400)).code, 0);
    ASSERT_EQ(cluster_.run({"up", "cluster.toml"}).code, 0);
    command("cat >> " + said_);
  }
  void TearDown() override {
    EXPECT_EQ(cluster_.run({"teardown", "--yes", "--discard"}).code, 0);
    EXPECT_TRUE(cluster_.nothing_left());
  }
  // Writes the script of the job's [notify].
  void command(const std::string& body) {
    write_script("quick_start/tell", body);
    const std::string job = TemporaryFolder::read(TEMPLATES_FOLDER "/quick_start/job.toml");
    cluster_.folder().write("quick_start/job.toml",
                            job +
                                "\n[notify]\ncommand = [\"./tell\"]\non = [\"done\", \"failed\", "
                                "\"stalled\", \"restarted\"]\nstalled_after = \"10s\"\n");
  }
  void write_script(const std::string& name, const std::string& body) {
    const std::string path = cluster_.folder().write(name, "#!/bin/sh\n" + body + "\n");
    ASSERT_EQ(::chmod(path.c_str(), 0700), 0);
  }
  void train(std::vector<std::string> options) {
    std::vector<std::string> arguments{"train",      "--detach", "--name", "job",
                                       "--trainers", "2",        "--set",  "train.batch_size=4"};
    if (std::ranges::find(options, "--pservers") == options.end())
      arguments.insert(arguments.end(), {"--pservers", "1"});
    arguments.insert(arguments.end(), options.begin(), options.end());
    if (std::ranges::find(options, "--resume") == options.end())
      arguments.emplace_back("quick_start");
    const Outcome started = cluster_.run(arguments);
    ASSERT_EQ(started.code, 0) << started.output;
  }
  void train_endless(std::vector<std::string> options = {}) {
    options.insert(options.end(),
                   {"--set", "train.passes=1000000", "--set", "train.saving_period=0"});
    train(options);
    const auto end = steady_clock::now() + kDeadline;
    while (steady_clock::now() < end && !cluster_.run({"status"}).says("pass ")) pause();
  }
  static void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(100)); }
  // All notices so far, once there are so many; each is read as strict JSON.
  std::vector<std::string> notices(std::size_t count) {
    std::vector<std::string> lines;
    const auto end = steady_clock::now() + kDeadline;
    do {
      lines.clear();
      std::istringstream text(std::filesystem::exists(said_) ? TemporaryFolder::read(said_) : "");
      for (std::string line; std::getline(text, line);) lines.push_back(line);
      pause();
    } while (lines.size() < count && steady_clock::now() < end);
    EXPECT_GE(lines.size(), count);
    for (const std::string& line : lines) {
      JsonReader reader({"event", "job", "cluster", "node", "process", "unix_ms", "text", "cause",
                         "pass", "passes", "best", "figures", "output", "left_out"});
      EXPECT_TRUE(reader.read(line)) << line;
    }
    return lines;
  }
  // The notices when nothing more comes.
  std::vector<std::string> last_notices(std::size_t count) {
    notices(count);
    std::this_thread::sleep_for(kQuiet);
    return notices(count);
  }
  static bool has(const std::string& line, const std::string& part) {
    return line.find(part) != std::string::npos;
  }
  static std::size_t with(const std::vector<std::string>& lines, const std::string& part) {
    return static_cast<std::size_t>(
        std::ranges::count_if(lines, [&](const std::string& line) { return has(line, part); }));
  }
  // `label`: "<job>/<process>".
  pid_t find_supervisor(const std::string& label) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
      const std::string path = entry.path().string() + "/cmdline";
      const std::string line =
          std::filesystem::exists(path, error) ? TemporaryFolder::read(path) : "";
      if (has(line, "supervise") && has(line, cluster_.folder().path()) && has(line, label))
        return std::stoi(entry.path().filename());
    }
    return 0;
  }
  void kill_engine(const std::string& argument) {
    const int pid = cluster_.find_engine(argument);
    ASSERT_GT(pid, 0);
    ASSERT_EQ(::kill(pid, SIGKILL), 0);
  }

  LocalCluster cluster_{2};
  std::string said_ = cluster_.folder() / "said";
};

TEST_F(NotifyJob, AJobThatEndsIsReportedOnceThoughPaddlectlWasKilled) {
  Process train = cluster_.start({"train", "--name", "job", "--trainers", "2", "--pservers", "1",
                                  "--set", "train.passes=30", "quick_start"});
  ASSERT_TRUE(train.prints("trainers running")) << train.output();
  train.signal(SIGKILL);
  EXPECT_EQ(train.wait(), 128 + SIGKILL);
  const auto lines = last_notices(1);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_TRUE(has(lines[0], "{\"event\":\"done\",\"job\":\"job\",\"cluster\":\"")) << lines[0];
  EXPECT_TRUE(has(lines[0], "\"process\":\"trainer-0\"")) << lines[0];
  EXPECT_TRUE(has(lines[0], "\"pass\":29,\"passes\":30,")) << lines[0];
}

TEST_F(NotifyJob, ATrainerThatIsKilledIsReportedAsRestartedAndThenAsFailed) {
  train_endless({"--restarts", "1"});
  kill_engine("--trainer_id=1");
  const auto first = last_notices(1);
  ASSERT_EQ(first.size(), 1U);
  EXPECT_TRUE(has(first[0], "{\"event\":\"restarted\"")) << first[0];
  EXPECT_TRUE(has(first[0], "\"process\":\"trainer-1\"")) << first[0];
  EXPECT_TRUE(has(first[0], "\"cause\":\"killed by signal 9 (Killed)\"")) << first[0];
  const auto end = steady_clock::now() + kDeadline;
  while (cluster_.find_engine("--trainer_id=1") == 0 && steady_clock::now() < end) pause();
  kill_engine("--trainer_id=1");
  const auto all = last_notices(2);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_TRUE(has(all[1], "{\"event\":\"failed\"")) << all[1];
  EXPECT_TRUE(has(all[1], "\"process\":\"trainer-1\"")) << all[1];
  EXPECT_TRUE(has(all[1], "\"cause\":\"killed by signal 9 (Killed)\"")) << all[1];
}

// The processes that end because of it, on both nodes, say nothing.
TEST_F(NotifyJob, AFailureIsReportedOnceByTheProcessThatFailed) {
  for (const char* argument : {"--pserver_id=0", "--trainer_id=0"}) {
    std::filesystem::remove(said_);
    train_endless();
    kill_engine(argument);
    const auto end = steady_clock::now() + kDeadline;
    while (steady_clock::now() < end && cluster_.run({"status"}).says("running")) pause();
    const auto lines = last_notices(1);
    EXPECT_EQ(lines.size(), 1U) << fmt::format("{}", fmt::join(lines, "\n"));
    EXPECT_EQ(with(lines, "{\"event\":\"failed\""), 1U) << lines[0];
    EXPECT_EQ(with(lines, "\"cause\":\"killed by signal 9 (Killed)\""), 1U) << lines[0];
    ASSERT_EQ(cluster_.run({"stop", "--now"}).code, 0);
    ASSERT_EQ(cluster_.run({"rm", "job", "--yes", "--discard"}).code, 0);
  }
}

// Trainers without pservers notice the loss themselves.
TEST_F(NotifyJob, AGroupReportsTheTrainerThatWasKilledOnce) {
  cluster_.folder().write("quick_start/words.txt", "w0\nw1\nw2\n<unk>\n");
  for (const char* file : {"g-00000", "g-00001"})
    cluster_.folder().write(std::string("quick_start/data/") + file,
                            "w0 w1 w2\nw1 w2 w0\nw2 w0 w1\n");
  cluster_.folder().write("quick_start/job.toml", R"([data]
train = "data/g-*"
format = "ngram"
dictionary = "words.txt"
ngram = 2
[[layer]]
name = "word"
type = "embedding"
input = ["word0"]
size = 8
vocabulary = "dictionary"
[[layer]]
name = "output"
type = "fc"
input = ["word"]
size = "dictionary"
[[layer]]
name = "cost"
type = "softmax_cross_entropy"
input = ["output"]
label = "next"
[strategy]
dense = "collective"
[notify]
command = ["./tell"]
)");
  for (const char* argument : {"--trainer_id=1", "--trainer_id=0"}) {
    std::filesystem::remove(said_);
    train_endless({"--pservers", "0"});
    kill_engine(argument);
    const auto lines = last_notices(1);
    EXPECT_EQ(lines.size(), 1U) << fmt::format("{}", fmt::join(lines, "\n"));
    EXPECT_EQ(with(lines, "\"cause\":\"killed by signal 9 (Killed)\""), 1U);
    ASSERT_EQ(cluster_.run({"stop", "--now"}).code, 0);
    ASSERT_EQ(cluster_.run({"rm", "job", "--yes", "--discard"}).code, 0);
  }
}

// With an attached paddlectl, which stops the rest of the job.
TEST_F(NotifyJob, TheStopOfTheRestDoesNotEndTheCommand) {
  command("sleep 2; cat >> " + said_);
  Process train =
      cluster_.start({"train", "--name", "job", "--trainers", "2", "--pservers", "1", "--set",
                      "train.passes=1000000", "--set", "train.saving_period=0", "quick_start"});
  ASSERT_TRUE(train.prints("/1000000  ")) << train.output();
  kill_engine("--trainer_id=1");
  EXPECT_EQ(train.wait(), 1) << train.output();
  const auto lines = last_notices(1);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_TRUE(has(lines[0], "{\"event\":\"failed\"")) << lines[0];
}

// The supervisor of the process that failed is late: paddlectl has seen the end of the others.
TEST_F(NotifyJob, AnAttachedPaddlectlHidesNoFailureOfALateSupervisor) {
  Process train =
      cluster_.start({"train", "--name", "job", "--trainers", "2", "--pservers", "1", "--set",
                      "train.passes=1000000", "--set", "train.saving_period=0", "quick_start"});
  ASSERT_TRUE(train.prints("/1000000  ")) << train.output();
  const pid_t supervisor = find_supervisor("job/trainer-1");
  ASSERT_GT(supervisor, 0);
  ASSERT_EQ(::kill(supervisor, SIGSTOP), 0);
  kill_engine("--trainer_id=1");
  EXPECT_TRUE(train.prints("stopping the rest of the job")) << train.output();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  ASSERT_EQ(::kill(supervisor, SIGCONT), 0);
  EXPECT_EQ(train.wait(), 4) << "the pserver has lost its trainer: " << train.output();
  const auto lines = last_notices(1);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_TRUE(has(lines[0], "{\"event\":\"failed\"")) << lines[0];
  EXPECT_TRUE(has(lines[0], "\"process\":\"trainer-1\"")) << lines[0];
  EXPECT_TRUE(has(lines[0], "\"cause\":\"killed by signal 9 (Killed)\"")) << lines[0];
}

TEST_F(NotifyJob, AStopIsNotReportedAndAResumeKeepsTheCommand) {
  train_endless();
  ASSERT_EQ(cluster_.run({"stop"}).code, 0);
  std::this_thread::sleep_for(kQuiet);
  EXPECT_FALSE(std::filesystem::exists(said_));
  train({"--resume", "--set", "train.passes=2"});
  const auto lines = last_notices(1);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_TRUE(has(lines[0], "{\"event\":\"done\"")) << lines[0];
}

TEST_F(NotifyJob, AJobThatStandsStillIsReportedOnceByTrainer0) {
  train_endless();
  const int hung = cluster_.find_engine("--trainer_id=1");
  ASSERT_GT(hung, 0);
  ASSERT_EQ(::kill(hung, SIGSTOP), 0);
  const auto lines = last_notices(1);
  ::kill(hung, SIGCONT);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_TRUE(has(lines[0], "{\"event\":\"stalled\"")) << lines[0];
  EXPECT_TRUE(has(lines[0], "stands still: trainer-0 has no progress for 1")) << lines[0];
}

TEST_F(NotifyJob, EachBetterTestIsReported) {
  train({"--set", "notify.on=[\"best\", \"done\"]", "--set", "train.best=cost", "--set",
         "train.passes=3"});
  const auto lines = last_notices(2);
  ASSERT_GE(lines.size(), 2U);
  EXPECT_TRUE(has(lines[0], "{\"event\":\"best\"")) << lines[0];
  EXPECT_TRUE(has(lines[0], "has a new best: cost ")) << lines[0];
  EXPECT_TRUE(has(lines[0], "\"best\":{\"pass\":0,\"figure\":\"cost\",\"value\":")) << lines[0];
  EXPECT_EQ(with(lines, "{\"event\":\"done\""), 1U);
  EXPECT_LE(with(lines, "{\"event\":\"best\""), 2U) << "one a minute, and the last at the end";
}

// The supervisor reads what trainer 0 said together with its end.
TEST_F(NotifyJob, TheBestPassIsReportedByALateSupervisorToo) {
  train({"--set", "notify.on=[\"best\", \"done\"]", "--set", "train.best=cost", "--set",
         "train.passes=40"});
  const pid_t supervisor = find_supervisor("job/trainer-0");
  ASSERT_GT(supervisor, 0);
  ASSERT_EQ(::kill(supervisor, SIGSTOP), 0);
  const auto end = steady_clock::now() + kDeadline;
  while (steady_clock::now() < end && cluster_.find_engine("--trainer_id=0") != 0) pause();
  ASSERT_EQ(::kill(supervisor, SIGCONT), 0);
  std::vector<std::string> lines;
  while (steady_clock::now() < end && with(lines, "{\"event\":\"done\"") == 0) lines = notices(1);
  ASSERT_GE(with(lines, "{\"event\":\"best\""), 1U);
  const auto best_of = [](const std::string& line) {
    const std::size_t at = line.find("\"best\":{");
    return at == line.npos ? "" : line.substr(at, line.find('}', at) - at);
  };
  std::string best, done;
  for (const std::string& line : lines)
    (has(line, "{\"event\":\"best\"") ? best : done) = best_of(line);
  EXPECT_EQ(best, done) << "the last of them";
}

// Whatever the command does, the job ends as without it, and teardown finds nothing.
TEST_F(NotifyJob, ACommandThatMisbehavesHurtsNothing) {
  command("yes & setsid sleep 1000 & sleep 1000");
  train({"--set", "train.passes=2"});
  const Outcome waited = cluster_.run({"wait", "job"});
  EXPECT_EQ(waited.code, 0) << waited.output;
  EXPECT_TRUE(cluster_.run({"status"}).says("done"));
}

TEST_F(NotifyJob, AProgramOfTheUsersOwnIsReportedToo) {
  command("cat >> " + said_);
  cluster_.folder().write(
      "quick_start/job.toml",
      "[trainer]\ncommand = [\"sh\", \"-c\", \"printf 'a\\\\377\\\"}'; exit 3\"]\n"
      "[notify]\ncommand = [\"./tell\"]\n");
  const Outcome started =
      cluster_.run({"train", "--detach", "--name", "job", "--trainers", "1", "quick_start"});
  ASSERT_EQ(started.code, 0) << started.output;
  const auto lines = last_notices(1);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_TRUE(has(lines[0], "{\"event\":\"failed\"")) << lines[0];
  EXPECT_TRUE(has(lines[0], "\"cause\":\"exited with code 3\"")) << lines[0];
  EXPECT_TRUE(has(lines[0], "\"output\":[\"a\xef\xbf\xbd\\\"}\"]")) << lines[0];
}

// For every job without a section of its own.
TEST_F(NotifyJob, TheUsersOwnFileIsPushedWithTheJob) {
  cluster_.folder().write("quick_start/job.toml",
                          TemporaryFolder::read(TEMPLATES_FOLDER "/quick_start/job.toml"));
  write_script("config/paddlectl/mine", "cat >> " + said_);
  cluster_.folder().write("config/paddlectl/notify.toml", "command = [\"./mine\"]\n");
  Process started({"/usr/bin/env", "-C", cluster_.folder().path(),
                   "XDG_CONFIG_HOME=" + (cluster_.folder() / "config"), PADDLECTL_PROGRAM, "train",
                   "--detach", "--name", "job", "--trainers", "2", "--pservers", "1", "--set",
                   "train.passes=1", "quick_start"},
                  cluster_.folder() / "started.txt");
  ASSERT_EQ(started.wait(), 0) << started.output();
  const auto lines = last_notices(1);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_TRUE(has(lines[0], "{\"event\":\"done\"")) << lines[0];
}

TEST_F(NotifyJob, MistakesAreShownBeforeAnythingIsPushed) {
  std::filesystem::remove(cluster_.folder() / "quick_start/tell");
  for (const char* option : {"--detach", "--dry-run"}) {
    const Outcome missing = cluster_.run({"train", option, "--trainers", "2", "quick_start"});
    EXPECT_EQ(missing.code, 2);
    EXPECT_TRUE(missing.says("the workspace has no file 'tell'")) << missing.output;
    EXPECT_TRUE(missing.says("command = [\"./tell\"]\n")) << missing.output;
    EXPECT_TRUE(missing.says("^")) << missing.output;
  }
  cluster_.folder().write("quick_start/job.toml",
                          TemporaryFolder::read(TEMPLATES_FOLDER "/quick_start/job.toml"));
  cluster_.folder().write("config/paddlectl/notify.toml", "command = [\"./none\"]\n");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"plan"}, {"train", "--dry-run"}}) {
    std::vector<std::string> line{"/usr/bin/env", "-C", cluster_.folder().path(),
                                  "XDG_CONFIG_HOME=" + (cluster_.folder() / "config"),
                                  PADDLECTL_PROGRAM};
    line.insert(line.end(), words.begin(), words.end());
    line.insert(line.end(), {"--trainers", "2", "quick_start"});
    Process users(line, cluster_.folder() / "users.txt");
    EXPECT_EQ(users.wait(), 2);
    EXPECT_NE(users.output().find("no file './none' beside it"), std::string::npos)
        << users.output();
  }
  command("cat");
  const Outcome unknown =
      cluster_.run({"plan", "--trainers", "2", "--set", "notify.on=[\"fialed\"]", "quick_start"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_TRUE(unknown.says("did you mean 'failed'?")) << unknown.output;
}

TEST_F(NotifyJob, ARenderedJobIsSaidToHaveNone) {
  const Outcome rendered = cluster_.run({"render", "slurm", "quick_start"});
  EXPECT_EQ(rendered.code, 0) << rendered.output;
  EXPECT_TRUE(rendered.says("[notify] is for paddlectl train only")) << rendered.output;
}

}  // namespace
}  // namespace paddle::test
