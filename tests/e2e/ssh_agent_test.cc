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

TEST_F(SshAgentTest, ALoginThatEndsAfterManyKeysIsNamedWithTheOptionThatEndsIt) {
  restart({"MaxAuthTries=6"});
  if (HasFatalFailure()) return;
  const test::TemporaryFolder keys;
  const std::string socket = keys / "agent";
  const test::Process agent({"/usr/bin/ssh-agent", "-D", "-a", socket}, keys / "said");
  ASSERT_TRUE(agent.prints("SSH_AUTH_SOCK")) << agent.output();
  std::vector<std::string> files;
  for (int i = 0; i < 7; ++i) {
    files.push_back(keys / fmt::format("other-{}", i));
    ASSERT_TRUE(test::make_key(files.back()));
  }
  files.push_back(sshd_->identity());
  for (const std::string& file : files) {
    ASSERT_EQ(*test::run_program(
                  {"/usr/bin/env", "SSH_AUTH_SOCK=" + socket, "/usr/bin/ssh-add", "-q", file}),
              0);
  }
  ::setenv("SSH_AUTH_SOCK", socket.c_str(), 1);
  const auto expect_named = [&](const std::string& tried) {
    const Error error = refusal();
    EXPECT_EQ(error.code, Errc::kAuth) << error.message;
    // libssh may have sent one key more when the server ended the login.
    const auto is_named = [&](int offered) {
      return error.message.find(
                 fmt::format("the server accepted none of {} keys, then ended the login "
                             "(MaxAuthTries); tried {}",
                             offered, tried)) != std::string::npos;
    };
    EXPECT_TRUE(is_named(6) || is_named(7)) << error.message;
    EXPECT_NE(error.hint.find("`identity`"), std::string::npos) << error.hint;
    EXPECT_NE(error.hint.find("IdentitiesOnly yes"), std::string::npos) << error.hint;
  };
  node_.identity.clear();
  expect_named("the keys of ssh-agent");
  node_.identity = files[0];
  expect_named(files[0] + ", the keys of ssh-agent");
  node_.identity = sshd_->identity();
  auto launcher = make_ssh_launcher(node_, within(seconds(20)));
  EXPECT_TRUE(launcher) << "the named key is the first one: " << launcher.error().message;
  ::unsetenv("SSH_AUTH_SOCK");

  // Without an agent, the keys of files.
  node_.identity.clear();
  std::string config = "Host *\n";
  for (const std::string& file : files) config += "  IdentityFile " + file + "\n";
  write(node_.ssh_directory + "/config", config);
  expect_named(files[0]);

  // A connection that ends at the first key has another reason.
  restart({"Banner=" + keys.write("banner", std::string(300'000, 'x'))});
  if (HasFatalFailure()) return;
  node_.identity.clear();
  ::setenv("SSH_AUTH_SOCK", socket.c_str(), 1);
  const Error error = refusal();
  EXPECT_EQ(error.code, Errc::kUnreachable) << error.message;
  EXPECT_NE(error.hint.find("Banner"), std::string::npos) << error.hint;
  ::unsetenv("SSH_AUTH_SOCK");
}

}  // namespace
}  // namespace paddle::remote
