// An ssh-agent that cannot be relied on, and the SSH launcher that must go on without it.
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "tests/e2e/ssh_fixture.h"
#include "tests/support/process.h"

namespace paddle::remote {
namespace {

using SshAgentTest = SshLauncherTest;

// Passes requests on to a real agent, but for those to sign: they are never answered.
void list_but_never_sign(int listener, const std::string& agent) {
  constexpr std::byte kSignRequest{13};
  const auto answer = [&](const UniqueFd& client, const UniqueFd& real) {
    for (;;) {
      std::array<std::byte, 4> head;
      std::vector<std::byte> body;
      const auto take = [&](const UniqueFd& from) {
        if (!read_exact(from.get(), head, within(seconds(20)))) return false;
        body.resize(std::to_integer<std::size_t>(head[2]) * 256 +
                    std::to_integer<std::size_t>(head[3]));
        return static_cast<bool>(read_exact(from.get(), body, within(seconds(20))));
      };
      const auto give = [&](const UniqueFd& to) {
        return write_all(to.get(), head, within(seconds(20))) &&
               write_all(to.get(), body, within(seconds(20)));
      };
      if (!take(client)) return;
      if (body[0] == kSignRequest) {
        take(client);  // until it hangs up
        return;
      }
      if (!give(real) || !take(real) || !give(client)) return;
    }
  };
  for (;;) {
    const UniqueFd client(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (!client) return;
    sockaddr_un where{};
    where.sun_family = AF_UNIX;
    agent.copy(where.sun_path, sizeof where.sun_path - 1);
    const UniqueFd real(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(real.get(), reinterpret_cast<sockaddr*>(&where), sizeof where) == 0)
      answer(client, real);
  }
}

TEST_F(SshAgentTest, AnAgentThatListsKeysButNeverSignsIsNamedAndPassedOver) {
  const std::string real = sshd_->folder() + "/agent";
  const std::string socket = sshd_->folder() + "/lazy";
  const test::Process agent({"/usr/bin/ssh-agent", "-D", "-a", real}, sshd_->folder() + "/said");
  ASSERT_TRUE(agent.prints("SSH_AUTH_SOCK")) << agent.output();
  ASSERT_EQ(*test::run_program({"/usr/bin/env", "SSH_AUTH_SOCK=" + real, "/usr/bin/ssh-add", "-q",
                                sshd_->identity()}),
            0);
  const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  socket.copy(where.sun_path, sizeof where.sun_path - 1);
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&where), sizeof where), 0);
  ASSERT_EQ(::listen(listener.get(), 4), 0);
  std::thread lazy([&] { list_but_never_sign(listener.get(), real); });
  ::setenv("SSH_AUTH_SOCK", socket.c_str(), 1);
  node_.identity.clear();
  const Error error = refusal();
  EXPECT_EQ(error.code, Errc::kAuth) << error.message;
  EXPECT_NE(error.message.find("lists keys, but sent no signature"), std::string::npos)
      << error.message;
  std::filesystem::copy_file(sshd_->identity(), node_.ssh_directory + "/id_ed25519");
  const auto launcher = make_ssh_launcher(node_, within(seconds(20)));
  EXPECT_TRUE(launcher) << "the other keys still count: " << launcher.error().message;
  ::unsetenv("SSH_AUTH_SOCK");
  ::shutdown(listener.get(), SHUT_RDWR);
  lazy.join();
}

}  // namespace
}  // namespace paddle::remote
