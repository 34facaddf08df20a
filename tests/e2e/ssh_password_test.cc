// Nodes that take a password: typed once for all, or from a file; and where it never shows up.
#include <sys/stat.h>

#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/ssh_cluster_test_fixture.h"
#include "tests/support/terminal_process.h"

namespace paddle::test {
namespace {

constexpr int kAuthentication = 5;
constexpr const char* kQuestion = " (and on every node that accepts it): ";

bool contains(const std::string& text, const std::string& word) {
  return text.find(word) != text.npos;
}

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (auto at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++found;
  return found;
}

class SshPasswordTest : public SshClusterTest {
 protected:
  explicit SshPasswordTest(SshdLogin login = SshdLogin::kPassword) : login_(login) {}

  void SetUp() override {
    if (const std::string why = Sshd::missing_for_passwords(); !why.empty()) GTEST_SKIP() << why;
    SshClusterTest::SetUp();
    if (HasFatalFailure()) return;
    write_user_file("dot_ssh/known_hosts", "");  // and no key
    write_nodes("");
    password_file_ = user_file("password");
    write_user_file("password", std::string(Sshd::kPassword) + "\n");
    ::chmod(password_file_.c_str(), 0600);
  }
  Result<std::unique_ptr<Sshd>> start_sshd(std::size_t node) override {
    return Sshd::start(kAddresses[node], login_);
  }

  void write_nodes(const std::string& ssh) {
    write_cluster(fmt::format("[ssh]\ndirectory = \"{}\"\n{}", user_file("dot_ssh"), ssh),
                  [&](std::size_t i) {
                    return fmt::format("host = \"{}\"\nssh_port = {}\nknown_hosts = \"{}\"\n",
                                       kAddresses[i], sshd(i).port(), sshd(i).known_hosts());
                  });
  }

  std::unique_ptr<TerminalProcess> at_terminal(const std::vector<std::string>& arguments) {
    std::vector<std::string> command = {"/usr/bin/env", "--chdir=" + user_file(""),
                                        PADDLECTL_PROGRAM};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return std::make_unique<TerminalProcess>(std::move(command), environment_);
  }

  void expect_four_commands() {
    const std::vector<std::vector<std::string>> commands = {
        {"up", "cluster.toml"},
        {"train", "--trainers", "3", "--pservers", "2", "--name", "first", "job"},
        {"logs", "--role", "trainer"},
        {"teardown", "--yes", "--discard"}};
    for (std::vector<std::string> command : commands) {
      command.insert(command.end(), {"--password-file", password_file_});
      const Outcome outcome = run(command);
      ASSERT_EQ(outcome.code, 0) << command[0] << ": " << outcome.output;
      EXPECT_FALSE(contains(outcome.output, Sshd::kPassword));
      if (command[0] == "train") {
        EXPECT_TRUE(std::filesystem::exists(user_file("output/first/pass-00001/MANIFEST")));
        EXPECT_FALSE(contains(TemporaryFolder::read(user_file("output/first/report.html")),
                              Sshd::kPassword));
      }
    }
    expect_clean_nodes();
  }

  SshdLogin login_;
  std::string password_file_;
};

class SshKeyboardTest : public SshPasswordTest {
 protected:
  SshKeyboardTest() : SshPasswordTest(SshdLogin::kKeyboard) {}
};

class SshKeyAndPasswordTest : public SshPasswordTest {
 protected:
  SshKeyAndPasswordTest() : SshPasswordTest(SshdLogin::kKeyAndPassword) {}
};

TEST_F(SshPasswordTest, TheFourCommandsWithAPasswordFromAFile) {
  expect_four_commands();
}

TEST_F(SshKeyboardTest, TheFourCommandsWithKeyboardInteractive) {
  expect_four_commands();
}

TEST_F(SshPasswordTest, ItIsTypedOnceForAllNodesWithoutEcho) {
  const auto up = at_terminal({"up", "cluster.toml"});
  ASSERT_TRUE(up->shows(kQuestion)) << up->shown();
  const std::string process = fmt::format("/proc/{}/", up->pid());
  up->type(Sshd::kPassword);
  ASSERT_TRUE(up->shows("3 nodes")) << up->shown();
  EXPECT_FALSE(contains(TemporaryFolder::read(process + "cmdline"), Sshd::kPassword));
  EXPECT_FALSE(contains(TemporaryFolder::read(process + "environ"), Sshd::kPassword));
  EXPECT_EQ(up->wait(), 0) << up->shown();
  EXPECT_EQ(count(up->shown(), "password"), 1U) << up->shown();
  EXPECT_FALSE(contains(up->shown(), Sshd::kPassword)) << up->shown();
  for (const NodeProcess& left : processes()) {
    EXPECT_FALSE(contains(TemporaryFolder::read(fmt::format("/proc/{}/environ", left.pid)),
                          Sshd::kPassword));
  }
}

TEST_F(SshKeyboardTest, AMistypedPasswordIsAskedForAgain) {
  const auto up = at_terminal({"up", "cluster.toml"});
  ASSERT_TRUE(up->shows(kQuestion)) << up->shown();
  up->type("wrong");
  ASSERT_TRUE(up->shows("wrong, try again: password of root on ")) << up->shown();
  up->type(Sshd::kPassword);
  EXPECT_EQ(up->wait(), 0) << up->shown();
  EXPECT_FALSE(contains(up->shown(), Sshd::kPassword));
}

TEST_F(SshPasswordTest, AfterThreeWrongOnesTheHintIsAboutPasswords) {
  const auto up = at_terminal({"up", "cluster.toml"});
  ASSERT_TRUE(up->shows(kQuestion)) << up->shown();
  for (int wrong = 0; wrong < 3; ++wrong) {
    up->type("wrong");
    if (wrong < 2) {
      ASSERT_TRUE(up->shows("wrong, try again: password of root on ")) << up->shown();
    }
  }
  EXPECT_EQ(up->wait(), kAuthentication) << up->shown();
  EXPECT_PRED2(contains, up->shown(), "3 passwords were refused for user root");
  EXPECT_PRED2(contains, up->shown(), "hint: check that `user` is right, ");
}

TEST_F(SshPasswordTest, WithoutATerminalOrAFileItSaysWhatToDo) {
  const Outcome up = run({"up", "cluster.toml"});
  EXPECT_EQ(up.code, kAuthentication) << up.output;
  EXPECT_PRED2(contains, up.output, "the server accepts publickey, password");
  EXPECT_PRED2(contains, up.output, "there is no terminal to ask on");
  EXPECT_PRED2(contains, up.output, "--password-file");
}

TEST_F(SshPasswordTest, AFileThatOthersCanReadIsRefused) {
  ::chmod(password_file_.c_str(), 0640);
  const Outcome up = run({"up", "cluster.toml", "--password-file", password_file_});
  EXPECT_EQ(up.code, kAuthentication) << up.output;
  EXPECT_PRED2(contains, up.output, "chmod 600");
}

TEST_F(SshPasswordTest, AnUnknownHostIsToldNoPassword) {
  ASSERT_TRUE(replace_file(sshd(0).known_hosts(), as_bytes("")));
  const Outcome up = run({"up", "cluster.toml", "--password-file", password_file_});
  EXPECT_EQ(up.code, kAuthentication) << up.output;
  const std::string log = sshd(0).log_with("Connection closed by");
  EXPECT_PRED2(contains, log, "Connection closed by");
  EXPECT_FALSE(contains(log, "password"));
}

TEST_F(SshPasswordTest, ThroughABastionThatTakesAPasswordToo) {
  auto bastion = Sshd::start("127.0.0.5", SshdLogin::kPassword);
  ASSERT_TRUE(bastion) << bastion.error().message;
  std::string known = TemporaryFolder::read((*bastion)->known_hosts());
  for (std::size_t i = 0; i < kNodes.size(); ++i) {
    known += TemporaryFolder::read(sshd(i).known_hosts());
  }
  write_user_file("known", known);
  write_cluster(fmt::format("[ssh]\ndirectory = \"{}\"\nknown_hosts = \"{}\"\njump = \"{}:{}\"\n",
                            user_file("dot_ssh"), user_file("known"), (*bastion)->address(),
                            (*bastion)->port()),
                [&](std::size_t i) {
                  return fmt::format("host = \"{}\"\nssh_port = {}\n", kAddresses[i],
                                     sshd(i).port());
                });
  const auto up = at_terminal({"up", "cluster.toml"});
  ASSERT_TRUE(
      up->shows(fmt::format("password of root on bastion 127.0.0.5:{}: ", (*bastion)->port())))
      << up->shown();
  up->type(Sshd::kPassword);
  ASSERT_TRUE(up->shows(kQuestion)) << up->shown();
  up->type(Sshd::kPassword);
  EXPECT_EQ(up->wait(), 0) << up->shown();
}

TEST_F(SshKeyAndPasswordTest, BothAreGivenWhereBothAreWanted) {
  const Outcome without_key =
      run({"exec", "--cluster", "cluster.toml", "--password-file", password_file_, "--", "true"});
  EXPECT_EQ(without_key.code, kAuthentication) << without_key.output;
  write_cluster("", [&](std::size_t i) {
    return fmt::format("host = \"{}\"\nssh_port = {}\nidentity = \"{}\"\nknown_hosts = \"{}\"\n",
                       kAddresses[i], sshd(i).port(), sshd(i).identity(), sshd(i).known_hosts());
  });
  const Outcome both =
      run({"exec", "--cluster", "cluster.toml", "--password-file", password_file_, "--", "true"});
  EXPECT_EQ(both.code, 0) << both.output;
}

}  // namespace
}  // namespace paddle::test
