#include <cstdlib>
#include <regex>
#include <sstream>
#include <vector>

#include <gtest/gtest.h>

#include "base/result.h"
#include "base/version.h"
#include "engine/commands/command.h"
#include "tests/support/temporary_folder.h"

namespace paddle::commands {
namespace {

struct Outcome {
  int code;
  std::string out;
  std::string error;
};

Outcome run(const std::vector<std::string>& arguments, std::vector<const char*> environment = {}) {
  environment.push_back(nullptr);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = run_program(arguments, environment.data());
  std::string out = testing::internal::GetCapturedStdout();
  return {code, std::move(out), testing::internal::GetCapturedStderr()};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

constexpr const char* kLineJob = R"([data]
train = "train.csv"
format = "csv"
columns = ["x", "y"]
[[data.slot]]
name = "x"
type = "float"
[[data.slot]]
name = "y"
type = "float"
[[layer]]
name = "out"
type = "fc"
input = ["x"]
size = 1
[[layer]]
name = "cost"
type = "squared_error"
input = ["out"]
label = "y"
)";

TEST(Program, HelpListsEveryCommandOnStdout) {
  const Outcome help = run({"--help"});
  EXPECT_EQ(help.code, 0);
  for (const char* name :
       {"version", "pserver", "train", "plan", "test", "predict", "export", "verify", "client"}) {
    EXPECT_TRUE(contains(help.out, std::string("\n  ") + name + " ")) << help.out;
    const Outcome own = run({name, "--help"});
    EXPECT_EQ(own.code, 0);
    EXPECT_TRUE(own.out.starts_with(std::string("usage: paddle ") + name)) << own.out;
  }
  EXPECT_EQ(help.error, "");
}

// A pipe has no width: that of most terminals.
TEST(Program, HelpFitsATerminal) {
  std::vector<std::string> helps{run({"--help"}).out};
  for (const char* name : {"version", "pserver", "train", "plan", "test", "predict", "export",
                           "nearest", "serve", "verify", "client"})
    helps.push_back(run({name, "--help"}).out);
  for (const std::string& help : helps) {
    std::istringstream lines(help);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
  }
}

TEST(Program, ClientNeedsAProgram) {
  const Outcome alone = run({"client", "--local"});
  EXPECT_EQ(alone.code, static_cast<int>(Errc::kUsage));
  EXPECT_TRUE(contains(alone.error, "client needs --channel_fd and --memory_fd")) << alone.error;
  const Outcome wrong = run({"client", "--local", "--channel_fd=900", "--memory_fd=901"});
  EXPECT_EQ(wrong.code, static_cast<int>(Errc::kUsage));
  EXPECT_TRUE(contains(wrong.error, "--channel_fd=900 is no stream socket")) << wrong.error;
}

TEST(Program, HelpOfACommandIsThatOfItsFlag) {
  EXPECT_EQ(run({"help"}).out, run({"--help"}).out);
  EXPECT_EQ(run({"help", "--help"}).out, run({"--help"}).out);
  for (const char* name : {"train", "serve", "version"}) {
    const Outcome help = run({"help", name});
    EXPECT_EQ(help.code, 0);
    EXPECT_EQ(help.error, "");
    EXPECT_EQ(help.out, run({name, "--help"}).out) << name;
  }
  const Outcome wrong = run({"help", "trian"});
  EXPECT_EQ(wrong.code, static_cast<int>(Errc::kUsage));
  EXPECT_EQ(wrong.error, "paddle: unknown command 'trian'\nhint: did you mean 'train'?\n");
}

TEST(Program, TrainWithoutAServerNamesTheFlagForNone) {
  const test::TemporaryFolder folder;
  folder.write("train.csv", "1,2\n");
  const std::string config = folder.write("job.toml", kLineJob);
  const Outcome lonely = run({"train", "--config=" + config, "--port=1", "--connect_timeout=1"});
  EXPECT_EQ(lonely.code, static_cast<int>(Errc::kUnreachable));
  EXPECT_TRUE(contains(lonely.error, "--local trains in this process alone")) << lonely.error;
  // A job of several processes knows its pservers.
  const Outcome named = run(
      {"train", "--config=" + config, "--port=1", "--connect_timeout=1", "--pservers=127.0.0.1:1"});
  EXPECT_FALSE(contains(named.error, "--local trains")) << named.error;

  // In one process: a line for each pass, and where the snapshot is.
  const std::string saved = folder / "saved";
  const Outcome local = run({"train", "--config=" + config, "--local", "--num_passes=2",
                             "--save_dir=" + saved, "--set=data.test=train.csv"});
  EXPECT_EQ(local.code, 0) << local.error;
  std::istringstream lines(local.error);
  std::vector<std::string> all;
  for (std::string line; std::getline(lines, line);) all.push_back(line);
  ASSERT_EQ(all.size(), 3U) << local.error;
  EXPECT_TRUE(all[0].starts_with("pass 1 of 2 (pass-00000): held-out cost ")) << all[0];
  EXPECT_TRUE(contains(all[1], "pass 2 of 2 (pass-00001): held-out cost ")) << all[1];
  EXPECT_TRUE(contains(all[1], ", rmse ") && contains(all[1], " (1 samples)")) << all[1];
  EXPECT_EQ(all[2], "saved " + saved + "/pass-00001");
  const Outcome lower =
      run({"train", "--config=" + config, "--local", "--set=train.compute=\"bf16\""});
  EXPECT_TRUE(lower.error.starts_with("1 thread, products in ")) << lower.error;
  const Outcome verbose = run({"train", "--config=" + config, "--local", "--verbose"});
  EXPECT_TRUE(contains(verbose.error, "Pass=0 over all trainers: ")) << verbose.error;
}

TEST(Program, TrainOfAJobOfSeveralProcessesDoesNotNameTheFlagForOne) {
  const test::TemporaryFolder folder;
  folder.write("train.csv", "1,2\n");
  const std::string config = folder.write("job.toml", kLineJob);
  const auto train = [&](std::vector<std::string> more, std::vector<const char*> environment) {
    more.insert(more.begin(), {"train", "--config=" + config, "--port=1", "--connect_timeout=1"});
    const Outcome outcome = run(more, std::move(environment));
    EXPECT_EQ(outcome.code, static_cast<int>(Errc::kUnreachable)) << outcome.error;
    EXPECT_FALSE(contains(outcome.error, "--local")) << outcome.error;
    EXPECT_TRUE(contains(outcome.error,
                         "hint: start its pservers first, and name them with "
                         "--pservers\n"))
        << outcome.error;
  };
  train({"--trainer_id=0", "--num_gradient_servers=2"}, {});
  train({}, {"PADDLE_INIT_NUM_GRADIENT_SERVERS=2"});
  train({}, {"PADDLE_INIT_PSERVERS=127.0.0.1:1"});
  train({"--pservers=127.0.0.1:1"}, {});
}

// Without --verbose there is a line for each pass or test, and the error.
TEST(Program, LocalTrainingPrintsOneLineForEachPass) {
  const test::TemporaryFolder folder;
  folder.write("train.csv", "1,2\n2,4\n3,6\n4,8\n");
  const std::string config =
      folder.write("job.toml", std::string(kLineJob) + "[train]\nbatch_size = 1\n");
  const auto train = [&](std::vector<std::string> more, int code) {
    more.insert(more.begin(), {"train", "--config=" + config, "--local", "--num_passes=2"});
    const Outcome outcome = run(more);
    EXPECT_EQ(outcome.code, code) << outcome.error;
    std::istringstream text(outcome.error);
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  };
  const std::string figures = R"(cost [\d.e+-]+, rmse [\d.e+-]+ \(4 samples\))";
  const auto is_like = [](const std::string& line, const std::string& pattern) {
    return std::regex_match(line, std::regex(pattern));
  };

  const auto untested = train({}, 0);
  ASSERT_EQ(untested.size(), 2U) << testing::PrintToString(untested);
  EXPECT_TRUE(is_like(untested[0], R"(pass 1 of 2 \(pass-00000\): )" + figures)) << untested[0];
  EXPECT_TRUE(is_like(untested[1], R"(pass 2 of 2 \(pass-00001\): )" + figures)) << untested[1];

  const auto tested = train({"--set=data.test=train.csv", "--set=train.test_period=3"}, 0);
  ASSERT_EQ(tested.size(), 4U) << testing::PrintToString(tested);
  for (const std::size_t pass : {0U, 1U}) {
    const std::string name =
        pass == 0 ? R"(pass 1 of 2 \(pass-00000\))" : R"(pass 2 of 2 \(pass-00001\))";
    EXPECT_TRUE(is_like(tested[2 * pass], name + ", batch 3: held-out " + figures))
        << tested[2 * pass];
    EXPECT_TRUE(is_like(tested[2 * pass + 1], name + ": held-out " + figures))
        << tested[2 * pass + 1];
  }

  folder.write("train.csv", "1,2\n2,4\nbad,6\n");
  const auto refused = train({}, static_cast<int>(Errc::kData));
  ASSERT_FALSE(refused.empty());
  EXPECT_TRUE(refused[0].starts_with("paddle: ") && contains(refused[0], "train.csv:3"))
      << refused[0];
  EXPECT_LE(refused.size(), 2U) << testing::PrintToString(refused);
  for (std::size_t i = 1; i < refused.size(); ++i) EXPECT_TRUE(refused[i].starts_with("hint: "));
}

// The lines, the errors and the warnings of one run count passes in the same way.
TEST(Program, LinesOfATrainingCountPassesInOneWay) {
  const test::TemporaryFolder folder;
  folder.write("train.csv", "1,2\nbad,2\n2,4\n3,6\n");
  const std::string config = folder.write("job.toml", std::string(kLineJob) + R"(
[train]
batch_size = 1
shuffle_records = 0
)");
  const auto train = [&](std::vector<std::string> more) {
    std::vector<std::string> all{"train", "--config=" + config, "--local",
                                 "--save_dir=" + (folder / "saved"),
                                 "--set=data.on_bad_record=skip"};
    all.insert(all.end(), more.begin(), more.end());
    Outcome outcome = run(all);
    EXPECT_FALSE(std::regex_search(outcome.error, std::regex(R"(Pass=|\b[Pp]ass 0\b)")))
        << outcome.error;
    return outcome;
  };
  ::setenv("PADDLECTL_STOP_ASKED", "1", 1);  // a stop after the first batch
  const Outcome stopped = train({"--num_passes=3"});
  EXPECT_EQ(stopped.code, static_cast<int>(Errc::kResumable)) << stopped.error;
  EXPECT_TRUE(contains(stopped.error,
                       "stopped on request in pass 1 (pass-00000), after batch 1 of trainer 0"))
      << stopped.error;
  EXPECT_TRUE(contains(stopped.error, "pass 1 of 3 (pass-00000), batch 1: cost ")) << stopped.error;

  const Outcome refused = train({"--num_passes=3", "--resume", "--set=seed=7"});
  EXPECT_EQ(refused.code, static_cast<int>(Errc::kUsage));
  EXPECT_TRUE(
      contains(refused.error, "is from the middle of pass 1 (pass-00000), which began with"))
      << refused.error;

  const Outcome resumed = train({"--num_passes=2", "--resume", "--set=train.batch_size=2"});
  EXPECT_EQ(resumed.code, 0) << resumed.error;
  for (const char* said :
       {"pass 1 (pass-00000) continues with batches of 2 records",
        "continuing in pass 1 (pass-00000), after", "pass 1 of 2 (pass-00000): cost ",
        "pass 2 (pass-00001) left out 1 bad records", "pass 2 of 2 (pass-00001): cost "})
    EXPECT_TRUE(contains(resumed.error, said)) << said << "\n" << resumed.error;
}

TEST(Program, WithoutACommandHelpIsAnError) {
  const Outcome help = run({});
  EXPECT_EQ(help.code, static_cast<int>(Errc::kUsage));
  EXPECT_EQ(help.out, "");
  EXPECT_TRUE(help.error.starts_with("usage: paddle <command>"));
}

TEST(Program, SuggestsTheNearestCommand) {
  EXPECT_EQ(run({"fetch"}).error,
            "paddle: unknown command 'fetch'\n"
            "hint: it is a command of paddlectl: see paddlectl fetch --help\n");
  EXPECT_EQ(run({"trian"}).error, "paddle: unknown command 'trian'\nhint: did you mean 'train'?\n");
  EXPECT_EQ(run({"x\x1b[2J"}).error,
            "paddle: unknown command 'x\\x1b[2J'\nhint: see paddle --help\n");
}

TEST(Program, NamesFromFilesCannotControlTheTerminal) {
  const test::TemporaryFolder folder;
  const std::string name = folder.write("a\x1b[2J\a\x7f.toml", "[train]\npasses = \n");
  const std::string error = run({"plan", "--config=" + name, "--local"}).error;
  EXPECT_EQ(error.find_first_of("\x1b\a\x7f"), std::string::npos) << error;
  EXPECT_TRUE(contains(error, "a\\x1b[2J\\x07\\x7f.toml:2:")) << error;
  EXPECT_TRUE(contains(error, "\n  passes =")) << error;  // its lines stay lines

  for (const char* flag : {"--snapshot=/a\x1b[2J", "--snapshot=/a\u202e", "--\x1b=1"}) {
    const std::string refused = run({"export", flag, "--parameter=\a\x1b"}).error;
    EXPECT_EQ(refused.find_first_of("\x1b\a"), std::string::npos) << refused;
    EXPECT_FALSE(contains(refused, "\u202e")) << refused;
  }
}

TEST(Program, VersionNamesVersionAndOptions) {
  for (const char* word : {"version", "--version"}) {
    const std::string text = run({word}).out;
    EXPECT_TRUE(text.starts_with(std::string("paddlectl engine ") + kProgramVersion)) << text;
    EXPECT_TRUE(text.ends_with('\n')) << text;
    for (const char* option : {"with_gpu: OFF", "with_avx: ", "compiler: ", "blas: OpenBLAS"}) {
      EXPECT_TRUE(contains(text, option)) << option << " in " << text;
    }
  }
}

TEST(Program, ErrorsKeepTheirCodeAndHint) {
  const Outcome bare = run({"export", "--snapshot=x"});
  EXPECT_EQ(bare.code, static_cast<int>(Errc::kUsage));
  EXPECT_EQ(bare.error,
            "paddle: x: there is no such folder\n"
            "hint: paddle export --snapshot=output/pass-00000 --parameter=_proj\n");
  EXPECT_EQ(run({"train", "--use_gpu"}).code, static_cast<int>(Errc::kUsage));
}

TEST(Program, TheEnvironmentSetsFlagsOfTheCommandOnly) {
  EXPECT_TRUE(contains(run({"export"}, {"PADDLE_INIT_SNAPSHOT=none", "PADDLE_INIT_PORT=many",
                                        "PADDLE_INIT_PARAMETER=w"})
                           .error,
                       "none"));
  EXPECT_TRUE(run({"plan"}, {"PADDLE_INIT_PORT=many"})
                  .error.starts_with("paddle: PADDLE_INIT_PORT: 'many'"));
}

}  // namespace
}  // namespace paddle::commands
