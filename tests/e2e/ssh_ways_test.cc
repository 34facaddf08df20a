// The four commands over every way in that a user may have: a bastion, an agent, aliases alone.
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/ssh_cluster_test_fixture.h"

namespace paddle::test {
namespace {

constexpr int kAuthentication = 5;
constexpr int kUnreachable = 4;

bool contains(const std::string& text, const std::string& word) {
  return text.find(word) != text.npos;
}

class SshWaysTest : public SshClusterTest {
 protected:
  void expect_four_commands() {
    const Outcome up = run({"up", "cluster.toml"});
    ASSERT_EQ(up.code, 0) << up.output;
    const Outcome trained =
        run({"train", "--trainers", "3", "--pservers", "2", "--name", "first", "job"});
    EXPECT_EQ(trained.code, 0) << trained.output;
    EXPECT_TRUE(std::filesystem::exists(user_file("output/first/pass-00001/MANIFEST")));
    const Outcome logs = run({"logs", "--role", "trainer"});
    EXPECT_EQ(logs.code, 0) << logs.output;
    EXPECT_PRED2(contains, logs.output, "charlie/trainer-2 | ");
    const Outcome torn_down = run({"teardown", "--yes", "--discard"});
    EXPECT_EQ(torn_down.code, 0) << torn_down.output;
    expect_clean_nodes();
  }

  std::string to_sshd(std::size_t node, bool with_identity) {
    std::string text = fmt::format("host = \"{}\"\nssh_port = {}\nknown_hosts = \"{}\"\n",
                                   kAddresses[node], sshd(node).port(), sshd(node).known_hosts());
    if (with_identity) text += fmt::format("identity = \"{}\"\n", sshd(node).identity());
    return text;
  }
};

TEST_F(SshWaysTest, ThroughABastion) {
  auto bastion = Sshd::start("127.0.0.5");
  ASSERT_TRUE(bastion) << bastion.error().message;
  std::string keys;
  for (std::size_t i = 0; i < kNodes.size(); ++i) {
    keys += TemporaryFolder::read(sshd(i).identity() + ".pub");
  }
  ASSERT_TRUE(replace_file((*bastion)->folder() + "/authorized_keys", as_bytes(keys)));
  write_cluster(fmt::format("[ssh]\njump = \"{}:{}\"\n", (*bastion)->address(), (*bastion)->port()),
                [&](std::size_t i) { return to_sshd(i, true); });
  const Outcome strange = run({"up", "cluster.toml"});
  EXPECT_EQ(strange.code, kAuthentication) << "the bastion's key is not known yet";
  EXPECT_PRED2(contains, strange.output, "paddlectl trust");
  const Outcome trusted = run({"trust", "--cluster", "cluster.toml", "--yes"});
  ASSERT_EQ(trusted.code, 0) << trusted.output;
  expect_four_commands();
  EXPECT_PRED2(contains, (*bastion)->log_with("Accepted publickey"), "Accepted publickey");
  bastion->reset();
  const Outcome alone = run({"up", "cluster.toml"});
  EXPECT_EQ(alone.code, kUnreachable) << "there is no other way\n" << alone.output;
  EXPECT_PRED2(contains, alone.output, "jump host 127.0.0.5");
}

TEST_F(SshWaysTest, ByOpenSshOverConnectionsThatItKeepsOpen) {
  std::vector<std::unique_ptr<Process>> masters;
  for (std::size_t i = 0; i < kNodes.size(); ++i) {
    const std::string socket = user_file(fmt::format("master-{}", i));
    masters.push_back(std::make_unique<Process>(
        std::vector<std::string>{"/usr/bin/ssh", "-F", "none", "-M", "-N", "-S", socket, "-i",
                                 sshd(i).identity(), "-p", std::to_string(sshd(i).port()), "-o",
                                 "UserKnownHostsFile=" + sshd(i).known_hosts(), kAddresses[i]},
        user_file(fmt::format("master-{}-printed", i))));
    ASSERT_TRUE(wait_until([&] { return std::filesystem::exists(socket); }))
        << masters.back()->output();
  }
  // These commands name no key: they get in by the open connections alone.
  write_cluster("", [&](std::size_t i) {
    return fmt::format(
        "launcher = [\"ssh\", \"-F\", \"none\", \"-o\", \"ControlPath={}\", \"-o\", "
        "\"BatchMode=yes\", \"{}\"]\n",
        user_file(fmt::format("master-{}", i)), kAddresses[i]);
  });
  expect_four_commands();
  ASSERT_EQ(run({"up", "cluster.toml"}).code, 0);
  masters[1].reset();
  std::filesystem::remove(user_file("master-1"));
  const Outcome alone = run({"up", "cluster.toml"});
  EXPECT_EQ(alone.code, kUnreachable) << alone.output;
  EXPECT_PRED2(contains, alone.output, "bravo");
  EXPECT_PRED2(contains, alone.output, "ssh exited with status 255");
}

TEST_F(SshWaysTest, WithKeysThatOnlyAnAgentHolds) {
  write_user_file("dot_ssh/known_hosts", "");  // and no key
  write_cluster(fmt::format("[ssh]\ndirectory = \"{}\"\n", user_file("dot_ssh")),
                [&](std::size_t i) { return to_sshd(i, false); });
  EXPECT_EQ(run({"up", "cluster.toml"}).code, kAuthentication);
  const std::string socket = user_file("agent");
  const Process agent({"/usr/bin/ssh-agent", "-D", "-a", socket}, user_file("agent-said"));
  ASSERT_TRUE(agent.prints("SSH_AUTH_SOCK")) << agent.output();
  for (std::size_t i = 0; i < kNodes.size(); ++i) {
    ASSERT_EQ(*run_program({"/usr/bin/env", "SSH_AUTH_SOCK=" + socket, "/usr/bin/ssh-add", "-q",
                            sshd(i).identity()}),
              0);
  }
  environment_.push_back("SSH_AUTH_SOCK=" + socket);
  expect_four_commands();
}

TEST_F(SshWaysTest, WithAliasesOfTheConfigFileAlone) {
  std::string config;
  for (std::size_t i = 0; i < kNodes.size(); ++i) {
    config += fmt::format(
        "Host box-{}\n  HostName {}\n  Port {}\n  IdentityFile {}\n  UserKnownHostsFile {}\n",
        kNodes[i], kAddresses[i], sshd(i).port(), sshd(i).identity(), sshd(i).known_hosts());
  }
  write_user_file("dot_ssh/boxes", config);
  write_user_file("dot_ssh/config", fmt::format("Include {}\n", user_file("dot_ssh/boxes")));
  write_cluster(fmt::format("[ssh]\ndirectory = \"{}\"\n", user_file("dot_ssh")),
                [&](std::size_t i) { return fmt::format("host = \"box-{}\"\n", kNodes[i]); });
  expect_four_commands();
}

// The laptop that started the job is gone; another one has the cluster file and the keys.
TEST_F(SshWaysTest, FromAnotherMachineWithTheClusterFileAndTheKeysAlone) {
  slow_job_down();
  ASSERT_EQ(run({"up", "cluster.toml"}).code, 0);
  const Outcome started = run({"train", "--detach", "--trainers", "2", "--pservers", "1", "--name",
                               "far", "--set", "train.passes=6", "job"});
  ASSERT_EQ(started.code, 0) << started.output;

  const TemporaryFolder other;
  const std::string cluster =
      other.write("lab.toml", TemporaryFolder::read(user_file("cluster.toml")));
  const std::string home = other / "home";
  std::filesystem::create_directory(home);
  std::filesystem::rename(user_file("job"), user_file("out-of-reach"));
  int commands = 0;
  const auto there = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"/usr/bin/env", "--chdir=" + other.path(), "HOME=" + home,
                                         PADDLECTL_PROGRAM});
    arguments.insert(arguments.end(), std::initializer_list<std::string>{"--cluster", "lab.toml"});
    return Process(arguments, other / fmt::format("printed-{}", commands++));
  };
  Process status = there({"status"});
  EXPECT_EQ(status.wait(kDeadline), 0) << status.output();
  EXPECT_PRED2(contains, status.output(), "trainer-1");
  EXPECT_PRED2(contains, status.output(), "job far");
  Process logs = there({"logs", "-f"});
  EXPECT_TRUE(logs.prints("trainer-1 | ")) << logs.output();
  Process attach = there({"attach"});
  constexpr std::chrono::seconds kEndOfJob{200};  // beside other tests
  EXPECT_EQ(attach.wait(kEndOfJob), 0) << attach.output();
  EXPECT_PRED2(contains, attach.output(), "held-out cost");
  EXPECT_TRUE(std::filesystem::exists(other / "output/far/pass-00005/MANIFEST"));
  EXPECT_TRUE(std::filesystem::exists(other / "output/far/report.html"));
  EXPECT_EQ(logs.wait(kDeadline), 0) << logs.output();
  EXPECT_PRED2(contains, logs.output(), "pserver-0 | ");
  Process teardown = there({"teardown", "--yes", "--discard"});
  EXPECT_EQ(teardown.wait(kDeadline), 0) << teardown.output();
  expect_clean_nodes();
}

}  // namespace
}  // namespace paddle::test
