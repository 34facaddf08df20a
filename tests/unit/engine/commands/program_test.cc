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

TEST(Program, HelpListsEveryCommandOnStdout) {
  const Outcome help = run({"--help"});
  EXPECT_EQ(help.code, 0);
  for (const char* name :
       {"version", "pserver", "train", "plan", "test", "predict", "export", "verify"}) {
    EXPECT_TRUE(contains(help.out, std::string("\n  ") + name + " ")) << help.out;
    const Outcome own = run({name, "--help"});
    EXPECT_EQ(own.code, 0);
    EXPECT_TRUE(own.out.starts_with(std::string("usage: paddle ") + name)) << own.out;
  }
  EXPECT_EQ(help.error, "");
}

TEST(Program, WithoutACommandHelpIsAnError) {
  const Outcome help = run({});
  EXPECT_EQ(help.code, static_cast<int>(Errc::kUsage));
  EXPECT_EQ(help.out, "");
  EXPECT_TRUE(help.error.starts_with("usage: paddle <command>"));
}

TEST(Program, SuggestsTheNearestCommand) {
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
