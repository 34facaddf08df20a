// [notify] of job.toml, and a user's notify.toml.
#include <gtest/gtest.h>

#include "tests/unit/engine/config/job_config_fixture.h"

namespace paddle::config {
namespace {

using namespace std::chrono_literals;

TEST_F(JobConfigTest, ReadsEveryKeyOfNotify) {
  EXPECT_FALSE(read_job(folder_.write("job.toml", kJob))->notify);
  const auto small =
      read_job(edited("passes = 2", "passes = 2\n[notify]\ncommand = [\"./tell\", \"-v\"]"));
  ASSERT_TRUE(small) << small.error().message;
  ASSERT_TRUE(small->notify);
  EXPECT_EQ(small->notify->command, (std::vector<std::string>{"./tell", "-v"}));
  EXPECT_EQ(small->notify->events, (std::vector<std::string>{"done", "failed", "stalled"}));
  EXPECT_EQ(small->notify->timeout, 10s);
  EXPECT_EQ(small->notify->stalled_after, 2min);
  const auto all = read_job(edited("passes = 2", R"(passes = 2
[notify]
command = ["tell"]
on = ["restarted", "disk_low"]
timeout = "1m30s"
stalled_after = "10s")"));
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->notify->events, (std::vector<std::string>{"restarted", "disk_low"}));
  EXPECT_TRUE(all->notify->has("disk_low"));
  EXPECT_FALSE(all->notify->has("done"));
  EXPECT_EQ(all->notify->timeout, 90s);
  EXPECT_EQ(all->notify->stalled_after, 10s);
}

TEST_F(JobConfigTest, MistakesInNotifyNameTheirLine) {
  const auto with = [this](const std::string& keys) {
    return mistake("passes = 2", "passes = 2\n[notify]\n" + keys);
  };
  EXPECT_EQ(with("command = [\"x\"]\non = [\"fialed\"]"),
            "job.toml:35:6: unknown event 'fialed', did you mean 'failed'?");
  EXPECT_EQ(with("command = []"), "job.toml:34:11: 'command' names no program");
  EXPECT_EQ(with("command = [\"\"]"), "job.toml:34:11: 'command' names no program");
  for (const char* name : {"  ", ".", ".."})
    EXPECT_EQ(with("command = [\"" + std::string(name) + "\"]"),
              "job.toml:34:11: 'command' names no program");
  EXPECT_EQ(with("command = [\"x\", \"a\\u0000b\"]"),
            "job.toml:34:11: an argument holds a NUL byte");
  EXPECT_NE(with("on = [\"done\"]").find("[notify] has no 'command'"), std::string::npos);
  EXPECT_EQ(with("command = [\"x\"]\ntimeout = \"6m\""),
            "job.toml:35:11: 'timeout' is '6m', but must be from 1 s to 300 s");
  EXPECT_EQ(with("command = [\"x\"]\ntimeout = 10"),
            "job.toml:35:11: 'timeout' must be a string with a unit");
  EXPECT_EQ(with("command = [\"x\"]\nstalled_after = \"9s\""),
            "job.toml:35:17: 'stalled_after' is '9s', but must be from 10 s to 86400 s");
  EXPECT_EQ(with("command = [\"x\"]\non = [\"best\"]"),
            "job.toml:35:6: the event 'best' needs train.best, the figure that is compared");
  EXPECT_NE(with("command = [\"x\"]\ncolour = 1").find("unknown key 'colour'"), std::string::npos);
}

TEST_F(JobConfigTest, AUsersFileHasTheSameKeysWithoutASection) {
  const std::string path =
      folder_.write("notify.toml", "command = [\"./tell\"]\non = [\"best\"]\n");
  const auto notify = read_notify_file(path);
  ASSERT_TRUE(notify) << notify.error().message;
  EXPECT_EQ(notify->command, std::vector<std::string>{"./tell"});
  EXPECT_TRUE(notify->has("best"));
  const auto empty = read_notify_file(folder_.write("notify.toml", "on = [\"done\"]\n"));
  ASSERT_FALSE(empty);
  EXPECT_NE(empty.error().message.find("notify.toml has no 'command'"), std::string::npos);
  const auto unknown = read_notify_file(folder_.write("notify.toml", "comand = [\"a\"]\n"));
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("did you mean 'command'?"), std::string::npos);
}

TEST_F(JobConfigTest, AMistakeThatOnlyTheCallerSeesIsShownAtTheCommand) {
  const std::string path =
      edited("passes = 2", "passes = 2\nunknown = 1\n[notify]\ncommand = [\"./tell\"]");
  const Error error = notify_mistake(path, {}, true, "the workspace has no file 'tell'", "add it");
  EXPECT_EQ(error.code, Errc::kUsage);
  EXPECT_NE(error.message.find("job.toml:35:11: the workspace has no file 'tell'\n"),
            std::string::npos)
      << error.message;
  EXPECT_NE(error.message.find("command = [\"./tell\"]"), std::string::npos);
  EXPECT_NE(error.message.find('^'), std::string::npos);
}

}  // namespace
}  // namespace paddle::config
