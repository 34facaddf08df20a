// The command of [notify]: where it comes from, its files, and its place in a plan.
#include "cli/job/notify.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace paddle::cli {
namespace {

class NotifyTest : public testing::Test {
 protected:
  static config::JobConfig job_with(const std::vector<std::string>& command) {
    config::JobConfig job;
    job.notify.emplace().command = command;
    return job;
  }
  Workspace workspace() const {
    Workspace workspace;
    workspace.path = folder_.path();
    workspace.common = {"job.toml", "tell"};
    return workspace;
  }
  Status check(const std::string& program, const Workspace& workspace) {
    folder_.write("job.toml", "name = \"x\"\n[notify]\ncommand = [\"" + program + "\"]\n");
    return check_notify(job_with({program}), folder_.path(), {}, workspace);
  }

  test::TemporaryFolder folder_;
};

TEST_F(NotifyTest, TheProgramMustBeAnExecutableFileThatIsPushed) {
  const Status missing = check("./tell", workspace());
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Errc::kUsage);
  EXPECT_NE(missing.error().message.find("job.toml:3:11: the workspace has no file 'tell'"),
            std::string::npos)
      << missing.error().message;
  const std::string path = folder_.write("tell", "#!/bin/sh\n");
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  EXPECT_NE(check("./tell", workspace()).error().message.find("'tell' is not executable"),
            std::string::npos);
  ASSERT_EQ(::chmod(path.c_str(), 0700), 0);
  EXPECT_TRUE(check("./tell", workspace()));
  Workspace ignored = workspace();
  ignored.common = {"job.toml"};
  EXPECT_NE(check("./tell", ignored).error().message.find("'tell' is not pushed"),
            std::string::npos);
  EXPECT_TRUE(check("mailx", ignored)) << "a program of the nodes";
  EXPECT_TRUE(check("/usr/bin/mailx", ignored));
  EXPECT_NE(check("bin/tell", ignored).error().message.find("has no file 'bin/tell'"),
            std::string::npos)
      << "a path without ./ is one in the workspace, too";
  EXPECT_NE(check("../tell", ignored).error().message.find("'../tell' is outside the workspace"),
            std::string::npos);
  EXPECT_TRUE(check_notify({}, folder_.path(), {}, ignored));
}

TEST_F(NotifyTest, TheUsersFileCountsWhereTheJobHasNone) {
  const std::string file = folder_.write("notify.toml", "command = [\"sh\", \"./tell\", \"-q\"]\n");
  folder_.write("tell", "");
  const auto own = find_notify(job_with({"mine"}), file);
  ASSERT_TRUE(own) << own.error().message;
  EXPECT_EQ((*own)->config.command, std::vector<std::string>{"mine"});
  EXPECT_TRUE((*own)->files.empty());
  const auto users = find_notify({}, file);
  ASSERT_TRUE(users) << users.error().message;
  EXPECT_EQ((*users)->config.command, (std::vector<std::string>{"sh", "./tell", "-q"}));
  EXPECT_EQ((*users)->files,
            (std::map<std::string, std::string>{{"./tell", folder_.path() + "/tell"}}));
  EXPECT_FALSE(*find_notify({}, folder_.path() + "/none.toml"));
  ASSERT_EQ(::symlink("nowhere", (folder_.path() + "/link.toml").c_str()), 0);
  EXPECT_FALSE(find_notify({}, folder_.path() + "/link.toml"));
  EXPECT_FALSE(*find_notify({}, ""));
}

TEST_F(NotifyTest, AMissingFileOfTheUsersFileIsNamedWithItsLine) {
  const std::string file = folder_.write("notify.toml", "# mine\ncommand = [\"./tell\"]\n");
  const auto missing = find_notify({}, file);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("notify.toml:2:11: no file './tell' beside it"),
            std::string::npos)
      << missing.error().message;
}

// It names a program that runs on nodes.
TEST_F(NotifyTest, AUsersFileThatOthersCouldHaveWrittenIsRefused) {
  const std::string file = folder_.write("notify.toml", "command = [\"true\"]\n");
  ASSERT_EQ(::chmod(file.c_str(), 0666), 0);
  const auto refused = find_notify({}, file);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kAuth);
}

TEST_F(NotifyTest, TheUsersFileLiesInTheConfigurationFolder) {
  ASSERT_EQ(::setenv("XDG_CONFIG_HOME", "/etc/mine", 1), 0);
  EXPECT_EQ(user_notify_file(), "/etc/mine/paddlectl/notify.toml");
  ASSERT_EQ(::setenv("XDG_CONFIG_HOME", "relative", 1), 0);
  const std::string home = ::getenv("HOME") == nullptr ? "" : ::getenv("HOME");
  ASSERT_EQ(::setenv("HOME", "/home/u", 1), 0);
  EXPECT_EQ(user_notify_file(), "/home/u/.config/paddlectl/notify.toml");
  ::unsetenv("XDG_CONFIG_HOME");
  EXPECT_EQ(user_notify_file(), "/home/u/.config/paddlectl/notify.toml");
  ::setenv("HOME", home.c_str(), 1);
}

TEST(NotifyPlan, Trainer0ReportsForTheJobAndATrainerElsewhereForItsNode) {
  const auto cluster = parse_cluster(
      "name = \"lab\"\nports_num = 1\nports_num_for_sparse = 1\n[[node]]\nhost = \"h[0-1]\"\n"
      "address = \"10.0.0.[1-2]\"\n",
      "t.toml");
  ASSERT_TRUE(cluster);
  const auto placement = place_job(*cluster, 4, 2);
  ASSERT_TRUE(placement);
  Workspace workspace;
  workspace.path = "/w";
  workspace.trainer_data.resize(4);
  JobRequest request{"j", "bin/paddle-1", ""};
  request.notify.emplace().config.command = {"sh", "./tell"};
  request.notify->files = {{"./tell", "/home/u/.config/paddlectl/tell"}};
  const auto plan = plan_job(*cluster, request, *placement, {{"10.0.0.1", "10.0.0.2"}}, workspace);
  ASSERT_TRUE(plan) << plan.error().message;
  const remote::NotifyCommand& first = plan->trainers[0].spec.notify;
  EXPECT_EQ(first.arguments, (std::vector<std::string>{"sh", "{root}/jobs/j/notify/tell"}));
  EXPECT_EQ(first.events, (std::vector<std::string>{"done", "failed", "stalled"}));
  EXPECT_EQ(first.timeout_ms, 10'000U);
  EXPECT_EQ(first.stalled_ms, 120'000U);
  EXPECT_EQ(first.cluster, "lab");
  EXPECT_EQ(first.node, cluster->nodes[plan->trainers[0].node].spec.name);
  EXPECT_TRUE(first.speaks_for_job);
  EXPECT_TRUE(first.witness_of.empty());
  for (const auto* const processes : {&plan->trainers, &plan->pservers}) {
    for (const PlannedProcess& process : *processes) {
      const std::string& name = process.spec.name;
      const remote::NotifyCommand& notify = process.spec.notify;
      EXPECT_EQ(notify.speaks_for_job, name == "trainer-0");
      EXPECT_EQ(notify.speaks_for_lost, name == "trainer-0" || name == "pserver-0");
      const bool is_witness = name == "pserver-1" || name == "trainer-1";
      EXPECT_EQ(notify.witness_of.empty(), !is_witness) << name;
      if (!is_witness) continue;
      EXPECT_NE(process.node, plan->trainers[0].node);
      for (const char* there : {"trainer-0", "trainer 0", "10.0.0.1:7164", "10.0.0.1:7165"})
        EXPECT_NE(std::ranges::find(notify.witness_of, there), notify.witness_of.end()) << there;
      EXPECT_EQ(std::ranges::find(notify.witness_of, "10.0.0.2:7164"), notify.witness_of.end());
    }
  }
  for (const NodeFiles& files : plan->files) {
    const auto pushed = std::ranges::find(files.items, std::string("jobs/j/notify/tell"),
                                          &remote::PushItem::remote_path);
    ASSERT_NE(pushed, files.items.end());
    EXPECT_EQ(pushed->local_path, "/home/u/.config/paddlectl/tell");
  }
}

}  // namespace
}  // namespace paddle::cli
