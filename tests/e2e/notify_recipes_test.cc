// templates/notify, with a stand-in for sendmail and a server on loopback.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <filesystem>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/fd.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace paddle::test {
namespace {

constexpr const char* kNotice =
    R"({"event":"failed","job":"j","cluster":"lab","node":"n-0","process":"trainer-1",)"
    R"("unix_ms":5,"text":"job j on n-0 has failed: \u0007<!channel> & caf\u00e9\nBcc: x@y",)"
    R"("cause":"c","figures":{},"output":["one","two"],"left_out":0})";

class NotifyRecipe : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists("/usr/bin/python3"))
      GTEST_SKIP() << "no python3 here: scripts/deps test";
    folder_.write("notice.json", std::string(kNotice) + "\n");
  }
  // Its exit code; what it printed is in `printed_`. The variable is its only secret.
  int run(const std::string& script, const std::string& variable) {
    Process process({"/bin/sh", "-c", "exec \"$0\" < \"$1\"", TEMPLATES_FOLDER "/notify/" + script,
                     folder_ / "notice.json"},
                    folder_ / "printed",
                    {"PATH=" + (folder_ / "bin") + ":/usr/bin:/bin", variable});
    const int code = process.wait(std::chrono::seconds(30)).value_or(-1);
    printed_ = process.output();
    return code;
  }

  TemporaryFolder folder_;
  std::string printed_;
};

// Answers one request, and keeps it.
class OneRequest {
 public:
  OneRequest() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener_.get(), any, size), 0);
    EXPECT_EQ(::listen(listener_.get(), 1), 0);
    EXPECT_EQ(::getsockname(listener_.get(), any, &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { answer(); });
  }
  ~OneRequest() { join(); }
  std::string url() const { return fmt::format("http://127.0.0.1:{}/secret", port_); }
  const std::string& request() {
    join();
    return request_;
  }

 private:
  void join() {
    if (!thread_.joinable()) return;
    ::shutdown(listener_.get(), SHUT_RDWR);  // ends an accept() that nobody answers
    thread_.join();
  }
  void answer() {
    const UniqueFd peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    char buffer[4096];
    const auto body_begins = [&] { return request_.find("\r\n\r\n"); };
    const auto is_whole = [&] {
      const auto at = request_.find("Content-Length: ");
      if (at == request_.npos || body_begins() == request_.npos) return false;
      const auto length = static_cast<std::size_t>(std::stoul(request_.substr(at + 16)));
      return request_.size() >= body_begins() + 4 + length;
    };
    while (peer && !is_whole()) {
      const ssize_t got = ::read(peer.get(), buffer, sizeof buffer);
      if (got <= 0) return;
      request_.append(buffer, static_cast<std::size_t>(got));
    }
    constexpr std::string_view kReply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    if (peer) (void)write_all(peer.get(), as_bytes(kReply), TimePoint::max());
  }

  UniqueFd listener_;
  std::uint16_t port_ = 0;
  std::thread thread_;
  std::string request_;
};

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(NotifyRecipe, MailGoesToSendmailWithOneLineAsItsSubject) {
  folder_.make("bin");
  const std::string sendmail =
      folder_.write("bin/sendmail", "#!/bin/sh\necho \"$@\" > " + (folder_ / "arguments") +
                                        "\ncat > " + (folder_ / "mail") + "\n");
  ASSERT_EQ(::chmod(sendmail.c_str(), 0700), 0);
  ASSERT_EQ(run("mail", "MAIL_TO=me@example.org"), 0) << printed_;
  EXPECT_EQ(TemporaryFolder::read(folder_ / "arguments"), "-t -i\n");
  const std::string mail = TemporaryFolder::read(folder_ / "mail");
  EXPECT_TRUE(mail.starts_with("To: me@example.org\nSubject: ")) << mail;
  EXPECT_FALSE(says(mail.substr(0, mail.find("\n\n")), "\nBcc:")) << mail;
  EXPECT_TRUE(says(mail, "one\ntwo\n")) << mail;
}

TEST_F(NotifyRecipe, SlackGetsTextWithoutMentions) {
  OneRequest server;
  ASSERT_EQ(run("slack", "SLACK_URL=" + server.url()), 0) << printed_;
  const std::string request = server.request();
  EXPECT_TRUE(request.starts_with("POST /secret HTTP/1.1\r\n")) << request;
  EXPECT_TRUE(says(request, "Content-Type: application/json\r\n")) << request;
  EXPECT_TRUE(says(request, "{\"text\": \"job j on n-0 has failed: \\u0007&lt;!channel&gt; &amp; "))
      << request;
}

TEST_F(NotifyRecipe, NtfyGetsTheTextWithItsPriority) {
  OneRequest server;
  ASSERT_EQ(run("ntfy", "NTFY_URL=" + server.url()), 0) << printed_;
  const std::string request = server.request();
  EXPECT_TRUE(request.starts_with("POST /secret HTTP/1.1\r\n")) << request;
  EXPECT_TRUE(says(request, "Title: paddlectl: failed\r\n")) << request;
  EXPECT_TRUE(says(request, "Priority: high\r\n")) << request;
  EXPECT_TRUE(says(request, "\r\n\r\njob j on n-0 has failed: ")) << request;
}

TEST_F(NotifyRecipe, WithoutItsVariableEachFailsAndNamesIt) {
  for (const auto& [script, name] :
       {std::pair{"mail", "MAIL_TO"}, {"slack", "SLACK_URL"}, {"ntfy", "NTFY_URL"}}) {
    EXPECT_NE(run(script, "OTHER=1"), 0);
    EXPECT_TRUE(says(printed_, name)) << printed_;
  }
}

}  // namespace
}  // namespace paddle::test
