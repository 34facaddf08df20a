#include "cli/job/engine_program.h"

#include <sys/stat.h>

#include <gtest/gtest.h>

#include "base/version.h"
#include "tests/support/temporary_folder.h"

namespace paddle::cli {
namespace {

class EngineProgramTest : public testing::Test {
 protected:
  std::string program(const std::string& script) {
    const std::string path = folder_.write("paddle", "#!/bin/sh\n" + script);
    EXPECT_EQ(::chmod(path.c_str(), 0700), 0);
    return path;
  }

  test::TemporaryFolder folder_;
};

TEST_F(EngineProgramTest, GivesBackAllThatIsPrinted) {
  const std::string printing = program("echo \"$1 $2\"; echo more >&2\n");
  const auto texts = run_engine_apart(printing, {"plan", "two words"}, std::nullopt);
  ASSERT_TRUE(texts) << texts.error().message;
  EXPECT_EQ(texts->out, "plan two words\n");
  EXPECT_EQ(texts->error, "more\n");
  EXPECT_EQ(*run_engine(printing, {"plan", "x"}), "plan x\n");
  // Much on both, in turns.
  const auto much = run_engine_apart(
      program("i=0; while [ $i -lt 3000 ]; do printf '%0100d\\n' $i; printf '%0100d\\n' $i >&2; "
              "i=$((i+1)); done\n"),
      {});
  ASSERT_TRUE(much) << much.error().message;
  EXPECT_EQ(much->out.size(), 303'000U);
  EXPECT_EQ(much->error, much->out);
}

TEST_F(EngineProgramTest, AnExitCodeIsAnErrorInTheProgramsWords) {
  const auto failed = run_engine(
      program("printf 'paddle: no such key\\nhint: look again\\n' >&2; exit 6\n"), {"plan"});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Errc::kData);
  EXPECT_EQ(failed.error().message, "no such key");
  EXPECT_EQ(failed.error().hint, "look again");
  const auto killed = run_engine(program("kill -9 $$\n"), {});
  ASSERT_FALSE(killed);
  EXPECT_EQ(killed.error().code, Errc::kFailed);
  EXPECT_EQ(killed.error().message, "paddle died of signal 9");
  EXPECT_EQ(run_engine(folder_ / "none", {}).error().code, Errc::kResource);
}

TEST_F(EngineProgramTest, AnotherReleaseIsRefused) {
  const std::string ours(kProgramVersion);
  EXPECT_TRUE(check_engine_version(program("echo 'paddlectl engine " + ours + ", x86-64'\n")));
  const auto other = check_engine_version(program("echo 'paddlectl engine 0.0.1, x86-64'\n"));
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Errc::kVersion);
  EXPECT_EQ(other.error().message, "paddle is version 0.0.1, but paddlectl is version " + ours);
  EXPECT_TRUE(check_engine_version(folder_ / "none")) << "running it for real tells more";
}

}  // namespace
}  // namespace paddle::cli
