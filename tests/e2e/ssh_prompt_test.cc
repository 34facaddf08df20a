// A server that asks its own questions (keyboard-interactive), and a person who answers them.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <libssh/libssh.h>
#include <libssh/server.h>

#include "base/fd.h"
#include "remote/launcher/launcher.h"
#include "tests/support/sshd.h"

namespace paddle::remote {
namespace {

using std::chrono::seconds;

struct Prompt {
  std::string text, answer;
  bool echo = false;
};

// One prompt a round; lets in whoever answers all of them.
class PromptServer {
 public:
  PromptServer(const std::string& host_key, std::vector<Prompt> prompts)
      : prompts_(std::move(prompts)), bind_(ssh_bind_new()) {
    const bool no_files = false;
    const int any_port = 0;
    ssh_bind_options_set(bind_, SSH_BIND_OPTIONS_PROCESS_CONFIG, &no_files);
    ssh_bind_options_set(bind_, SSH_BIND_OPTIONS_BINDADDR, "127.0.0.6");
    ssh_bind_options_set(bind_, SSH_BIND_OPTIONS_BINDPORT, &any_port);
    ssh_bind_options_set(bind_, SSH_BIND_OPTIONS_HOSTKEY, host_key.c_str());
    if (ssh_bind_listen(bind_) != SSH_OK) return;
    sockaddr_in where{};
    socklen_t size = sizeof where;
    ::getsockname(ssh_bind_get_fd(bind_), reinterpret_cast<sockaddr*>(&where), &size);
    port_ = ntohs(where.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~PromptServer() {
    stop_ = true;
    const UniqueFd wake(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(port_);
    ::inet_pton(AF_INET, "127.0.0.6", &where.sin_addr);
    ::connect(wake.get(), reinterpret_cast<sockaddr*>(&where), sizeof where);
    if (thread_.joinable()) thread_.join();
    ssh_bind_free(bind_);
  }
  PromptServer(const PromptServer&) = delete;
  PromptServer& operator=(const PromptServer&) = delete;

  std::uint16_t port() const { return port_; }

 private:
  void serve() {
    while (!stop_) {
      ssh_session session = ssh_new();
      if (ssh_bind_accept(bind_, session) == SSH_OK && !stop_ &&
          ssh_handle_key_exchange(session) == SSH_OK) {
        authenticate(session);
      }
      ssh_disconnect(session);
      ssh_free(session);
    }
  }
  void ask(ssh_message message, std::size_t round) {
    const char* const text[] = {prompts_[round].text.c_str()};
    char echo[] = {static_cast<char>(prompts_[round].echo ? 1 : 0)};
    ssh_message_auth_interactive_request(message, "", "", 1, const_cast<const char**>(text), echo);
  }
  void authenticate(ssh_session session) {
    ssh_set_auth_methods(session, SSH_AUTH_METHOD_INTERACTIVE);
    std::size_t round = 0;
    for (bool in = false; !in;) {
      ssh_message message = ssh_message_get(session);
      if (message == nullptr) return;
      const int kind = ssh_message_type(message);
      const bool asks =
          kind == SSH_REQUEST_AUTH && ssh_message_subtype(message) == SSH_AUTH_METHOD_INTERACTIVE;
      if (kind == SSH_REQUEST_SERVICE) {
        ssh_message_service_reply_success(message);
      } else if (asks && ssh_message_auth_kbdint_is_response(message) == 0) {
        round = 0;
        ask(message, round);
      } else if (asks && prompts_[round].answer == ssh_userauth_kbdint_getanswer(session, 0)) {
        in = ++round == prompts_.size();
        if (in) ssh_message_auth_reply_success(message, 0);
        if (!in) ask(message, round);
      } else {
        ssh_message_auth_set_methods(message, SSH_AUTH_METHOD_INTERACTIVE);
        ssh_message_reply_default(message);
      }
      ssh_message_free(message);
    }
  }

  std::vector<Prompt> prompts_;
  ssh_bind bind_;
  std::uint16_t port_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

class SshPromptTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = test::Sshd::missing(); !why.empty()) GTEST_SKIP() << why;
    ::signal(SIGPIPE, SIG_IGN);
    ::unsetenv("SSH_AUTH_SOCK");
    ASSERT_TRUE(test::make_key(folder_ / "host_key"));
  }

  void serve(std::vector<Prompt> prompts) {
    server_ = std::make_unique<PromptServer>(folder_ / "host_key", std::move(prompts));
    ASSERT_NE(server_->port(), 0);
    node_.name = "node-0";
    node_.host = "127.0.0.6";
    node_.user = "train";
    node_.ssh_port = server_->port();
    node_.ssh_directory = folder_.path();
    folder_.write("known_hosts",
                  fmt::format("[127.0.0.6]:{} {}", server_->port(),
                              test::TemporaryFolder::read(folder_ / "host_key.pub")));
  }
  Status reach() {
    const auto launcher = log_in(answers_, [&](Login& login) {
      return make_ssh_launcher(node_, SteadyClock().now() + seconds(20), &login);
    });
    return launcher ? Status() : launcher.error();
  }

  test::TemporaryFolder folder_;
  std::unique_ptr<PromptServer> server_;
  NodeSpec node_;
  std::vector<std::string> said_, questions_;
  LoginAnswers answers_{[this](std::string_view question, bool secret) {
    questions_.push_back(std::string(question) + (secret ? "(unseen)" : "(seen)"));
    const std::size_t next = questions_.size() - 1;
    return next < said_.size() ? std::optional<std::string>(said_[next]) : std::nullopt;
  }};
};

TEST_F(SshPromptTest, APasswordIsKeptAndACodeAskedForEachTime) {
  serve({{"(train@node) Password: ", "one"}, {"Verification code: ", "123", true}});
  const std::string code =
      fmt::format("train@node-0 (127.0.0.6:{}) asks: Verification code:  (seen)", server_->port());
  said_ = {"one", "123", "123", "wrong", "123"};
  const Status first = reach();
  ASSERT_TRUE(first) << first.error().message;
  const std::string password = fmt::format(
      "password of train on node-0 (127.0.0.6:{}) (and on every node that accepts it): "
      "(unseen)",
      server_->port());
  EXPECT_EQ(questions_, (std::vector<std::string>{password, code}));
  EXPECT_TRUE(reach());
  ASSERT_EQ(questions_.size(), 3U);
  EXPECT_EQ(questions_[2], code);
  EXPECT_TRUE(reach()) << "a mistyped code is asked for again, the password is not";
  ASSERT_EQ(questions_.size(), 5U);
  EXPECT_EQ(questions_[4], code);
}

TEST_F(SshPromptTest, WhatIsNoPlainPasswordPromptGetsNoPassword) {
  for (const char* prompt : {"New password: ", "Password of your bank: ", "password\x1b[8m: "}) {
    said_ = questions_.empty() ? std::vector<std::string>{"one", "two"}
                               : std::vector<std::string>{"two"};  // the password is known
    questions_.clear();
    serve({{"Password: ", "one"}, {prompt, "two"}});
    const Status in = reach();
    EXPECT_TRUE(in) << in.error().message;
    ASSERT_EQ(questions_.empty() ? "" : questions_.back().substr(0, 6), "train@") << prompt;
    EXPECT_EQ(questions_.back().find('\x1b'), std::string::npos);
    server_.reset();
  }
}

TEST_F(SshPromptTest, GivesUpWhenNobodyAnswers) {
  serve({{"Token\x1b]0;owned\a: ", "123"}});
  const Status nobody = reach();
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().code, Errc::kAuth);
  ASSERT_EQ(questions_.size(), 1U);
  EXPECT_NE(questions_[0].find("Token\\x1b]0;owned\\x07"), std::string::npos) << questions_[0];
  EXPECT_NE(nobody.error().message.find("the server accepts keyboard-interactive"),
            std::string::npos)
      << nobody.error().message;
}

}  // namespace
}  // namespace paddle::remote
