// The agent over a real sshd: bootstrap, facts, files, a supervised process, teardown.
#include <sys/stat.h>

#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "proto/agent.pb.h"
#include "remote/client/agent_client.h"
#include "remote/client/push_source.h"
#include "tests/e2e/ssh_fixture.h"
#include "tests/support/planted_agent.h"

namespace paddle::remote {
namespace {

namespace fs = std::filesystem;

class SshConnectTest : public SshLauncherTest {
 protected:
  void SetUp() override {
    SshLauncherTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    node_.root = folder_.path() + "/nodes/lab";
    options_.agent_binary = AGENT_BINARY;
    options_.deadline = seconds(40);
  }

  std::unique_ptr<AgentClient> connected() {
    auto client = connect(node_, options_);
    EXPECT_TRUE(client) << client.error().message;
    return client ? *std::move(client) : nullptr;
  }

  // A bastion that knows the node's user, before the node.
  void start_bastion(const std::vector<std::string>& options) {
    auto bastion = Sshd::start("127.0.0.3", test::SshdLogin::kKey, options);
    ASSERT_TRUE(bastion) << bastion.error().message;
    bastion_ = *std::move(bastion);
    write(bastion_->folder() + "/authorized_keys", *read_file(sshd_->identity() + ".pub"));
    write(node_.known_hosts, *read_file(node_.known_hosts) + *read_file(bastion_->known_hosts()));
    node_.jump = fmt::format("{}:{}", bastion_->address(), bastion_->port());
  }

  // Every file below root with its inode: a file that was replaced gets another one.
  std::map<std::string, ino_t> inodes() const {
    std::map<std::string, ino_t> found;
    for (const auto& entry : fs::recursive_directory_iterator(node_.root)) {
      struct stat about {};
      if (entry.is_regular_file() && ::stat(entry.path().c_str(), &about) == 0) {
        found[entry.path().string()] = about.st_ino;
      }
    }
    return found;
  }

  test::TemporaryFolder folder_;
  ConnectOptions options_;
  std::unique_ptr<Sshd> bastion_;
};

TEST_F(SshConnectTest, AServerMayAllowOneSessionAConnection) {
  restart({"MaxSessions=1"});
  if (HasFatalFailure()) return;
  // First with the agent to be brought there, which takes a command after the other; then without.
  for (int turn = 0; turn < 3; ++turn) {
    auto client = connected();
    ASSERT_TRUE(client);
    EXPECT_TRUE(client->facts());
  }
  // An agent that is there, but cannot be run yet.
  for (const auto& entry : std::filesystem::directory_iterator(node_.root + "/bin")) {
    std::filesystem::permissions(entry.path(), std::filesystem::perms::owner_read);
  }
  auto client = connected();
  ASSERT_TRUE(client);
  EXPECT_TRUE(client->teardown(false));
}

// A forwarded connection is no session, so a bastion may allow none at all.
TEST_F(SshConnectTest, AServerMayAllowOneSessionBehindABastionThatDoesToo) {
  restart({"MaxSessions=1"});
  if (HasFatalFailure()) return;
  for (const char* const option : {"MaxSessions=1", "MaxSessions=0"}) {
    start_bastion({option});
    if (HasFatalFailure()) return;
    for (int turn = 0; turn < 2; ++turn) {
      auto client = connected();
      ASSERT_TRUE(client) << option;
      EXPECT_TRUE(client->facts()) << option;
    }
    auto client = connected();
    ASSERT_TRUE(client) << option;
    EXPECT_TRUE(client->teardown(false)) << option;
  }
}

TEST_F(SshConnectTest, AServerThatRefusesChannelsForGoodIsNamedWithTheOptionThatDoes) {
  restart({"MaxSessions=0"});
  if (HasFatalFailure()) return;
  const auto refused = connect(node_, options_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kUnreachable);
  EXPECT_NE(refused.error().message.find(
                fmt::format("127.0.0.2:{}: opening a channel: ", node_.ssh_port)),
            std::string::npos)
      << refused.error().message;
  EXPECT_NE(refused.error().hint.find("set MaxSessions"), std::string::npos)
      << refused.error().hint;

  restart({});
  start_bastion({"AllowTcpForwarding=no"});
  if (HasFatalFailure()) return;
  const auto behind = connect(node_, options_);
  ASSERT_FALSE(behind);
  EXPECT_EQ(behind.error().hint.find("MaxSessions"), std::string::npos) << behind.error().hint;
  EXPECT_NE(behind.error().hint.find(fmt::format("connect to 127.0.0.2 port {}", node_.ssh_port)),
            std::string::npos)
      << behind.error().hint;
  EXPECT_NE(behind.error().hint.find("AllowTcpForwarding"), std::string::npos);
}

TEST_F(SshConnectTest, TellsFactsPushesFilesRunsAProcessAndLeavesNothing) {
  auto client = connected();
  ASSERT_TRUE(client);
  const auto facts = client->facts();
  ASSERT_TRUE(facts) << facts.error().message;
  EXPECT_EQ(facts->root(), node_.root);
  EXPECT_GT(facts->cores(), 0U);

  const std::string script = folder_.path() + "/script";
  ASSERT_TRUE(replace_file(script, as_bytes("#!/bin/sh\necho \"hello $1\"\nexit 7\n")));
  const std::vector<PushItem> items = {{script, "jobs/one/script", true}};
  PushSource source;
  const auto first = client->push(items, source, nullptr);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->files_sent, 1U);
  const auto second = client->push(items, source, nullptr);
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->files_sent, 0U);

  ProcessSpec process;
  process.job = "one";
  process.name = "trainer-0";
  process.program = "jobs/one/script";
  process.arguments = {"there; touch /tmp/never"};
  process.directory = "jobs/one";
  process.log = "jobs/one/trainer-0.log";
  const Status started = client->start(process);
  ASSERT_TRUE(started) << started.error().message;
  const TimePoint deadline = SteadyClock().now() + seconds(30);
  ProcessStatus status;
  status.state = ProcessState::kRunning;
  while (status.state == ProcessState::kRunning && SteadyClock().now() < deadline) {
    const auto all = client->processes("one");
    ASSERT_TRUE(all) << all.error().message;
    ASSERT_EQ(all->size(), 1U);
    status = all->front();
  }
  EXPECT_EQ(status.state, ProcessState::kExited);
  EXPECT_EQ(status.exit_code, 7);
  const auto log = client->read_file(process.log, 0, 4096);
  ASSERT_TRUE(log) << log.error().message;
  EXPECT_NE(log->data.find("hello there; touch /tmp/never"), std::string::npos) << log->data;

  const auto report = client->teardown(false);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->remaining().empty());
  EXPECT_FALSE(fs::exists(node_.root));
}

TEST_F(SshConnectTest, AProgramThatSomebodyElseMayHavePlantedIsNotRun) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  for (const std::string& way : test::PlantedAgent::ways()) {
    node_.root = folder_.path() + "/" + std::to_string(way.size()) + "/shared/lab";
    const test::PlantedAgent planted(node_.root, options_.agent_binary);
    planted.plant(way);
    EXPECT_FALSE(connect(node_, options_)) << way;
    EXPECT_FALSE(planted.has_run()) << way;
  }
}

TEST_F(SshConnectTest, ASecondConnectPushesNothing) {
  ASSERT_TRUE(connected());
  const auto before = inodes();
  ASSERT_FALSE(before.empty()) << "the agent is there";
  ASSERT_TRUE(connected());
  EXPECT_EQ(inodes(), before);
}

TEST_F(SshConnectTest, AProcessOutlivesTheConnection) {
  auto client = connected();
  ASSERT_TRUE(client);
  ASSERT_EQ(*test::run_program({"/usr/bin/mkfifo", folder_.path() + "/gate"}), 0);
  const std::string script = folder_.path() + "/script";
  ASSERT_TRUE(replace_file(
      script, as_bytes("#!/bin/sh\nread word < " + folder_.path() + "/gate\nexit 5\n")));
  PushSource source;
  ASSERT_TRUE(client->push({{script, "jobs/two/script", true}}, source, nullptr));
  ProcessSpec process;
  process.job = "two";
  process.name = "trainer-0";
  process.program = "jobs/two/script";
  process.directory = "jobs/two";
  process.log = "jobs/two/trainer-0.log";
  ASSERT_TRUE(client->start(process));
  sshd_->signal_sessions(SIGKILL);  // the laptop sleeps, the network is gone
  EXPECT_FALSE(client->facts());

  client = connected();
  ASSERT_TRUE(client);
  auto all = client->processes("two");
  ASSERT_TRUE(all) << all.error().message;
  ASSERT_EQ(all->size(), 1U);
  EXPECT_EQ(all->front().state, ProcessState::kRunning);
  const int pid = all->front().pid;
  const auto report = client->teardown(false);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_GE(report->processes_ended(), 1U);
  EXPECT_NE(::kill(pid, 0), 0) << "ended by teardown";
  EXPECT_FALSE(fs::exists(node_.root));
}

}  // namespace
}  // namespace paddle::remote
