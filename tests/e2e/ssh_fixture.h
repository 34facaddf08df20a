// A real sshd on a loopback address, and the node that reaches it.
#pragma once

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "remote/launcher/launcher.h"
#include "tests/support/sshd.h"

namespace paddle::remote {

using std::chrono::seconds;
using test::Sshd;

inline TimePoint within(seconds left) {
  return SteadyClock().now() + left;
}

class SshLauncherTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ::signal(SIGPIPE, SIG_IGN);
    ::unsetenv("SSH_AUTH_SOCK");  // keys of the person who runs the test are not part of it
  }

  void SetUp() override {
    if (const std::string why = Sshd::missing(); !why.empty()) GTEST_SKIP() << why;
    restart({});
  }

  // With these lines in sshd_config.
  void restart(const std::vector<std::string>& options) {
    sshd_.reset();
    auto sshd = Sshd::start("127.0.0.2", test::SshdLogin::kKey, options);
    ASSERT_TRUE(sshd) << sshd.error().message;
    sshd_ = *std::move(sshd);
    node_.name = "node-0";
    node_.host = sshd_->address();
    node_.ssh_port = sshd_->port();
    node_.identity = sshd_->identity();
    node_.known_hosts = sshd_->known_hosts();
    node_.ssh_directory = sshd_->folder() + "/dot_ssh";
    node_.allow_proxy_command = true;  // it stands for ~/.ssh
    std::filesystem::create_directory(node_.ssh_directory);
  }

  void write(const std::string& path, const std::string& text) {
    ASSERT_TRUE(replace_file(path, as_bytes(text)));
  }

  Error refusal() {
    auto launcher = make_ssh_launcher(node_, within(seconds(20)));
    EXPECT_FALSE(launcher);
    return launcher ? Error{} : std::move(launcher).error();
  }

  std::unique_ptr<Sshd> sshd_;
  NodeSpec node_;
};

// Reads to the end of file; "" plus a failure when the deadline passes.
inline std::string read_all(int fd) {
  std::string text;
  std::byte one[4096];
  for (;;) {
    pollfd item{fd, POLLIN, 0};
    if (::poll(&item, 1, 20000) <= 0) {
      ADD_FAILURE() << "no end of file";
      return text;
    }
    const ssize_t got = ::read(fd, one, sizeof one);
    if (got <= 0) return text;
    text.append(reinterpret_cast<const char*>(one), static_cast<std::size_t>(got));
  }
}

}  // namespace paddle::remote
