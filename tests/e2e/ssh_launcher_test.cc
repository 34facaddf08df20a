// The SSH launcher against a real sshd on a loopback address.
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/base/bytes.h"
#include "engine/base/crc32c.h"
#include "engine/base/rng.h"
#include "remote/launcher.h"
#include "remote/ssh_config.h"
#include "remote/ssh_pump.h"
#include "tests/support/sshd.h"

namespace paddle::remote {
namespace {

using std::chrono::seconds;
using test::Sshd;

TimePoint within(seconds left) {
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
    auto sshd = Sshd::start("127.0.0.2");
    ASSERT_TRUE(sshd) << sshd.error().message;
    sshd_ = *std::move(sshd);
    node_.name = "node-0";
    node_.host = sshd_->address();
    node_.ssh_port = sshd_->port();
    node_.identity = sshd_->identity();
    node_.known_hosts = sshd_->known_hosts();
    node_.ssh_directory = sshd_->folder() + "/dot_ssh";
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
std::string read_all(int fd) {
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

std::string fingerprint_of(const std::string& public_key, const std::string& scratch) {
  // ssh-keygen is the independent witness for what the launcher prints.
  EXPECT_EQ(*test::run_program({"/usr/bin/ssh-keygen", "-l", "-f", public_key}, scratch), 0);
  const std::string line = *read_file(scratch);
  const auto begin = line.find("SHA256:");
  return line.substr(begin, line.find(' ', begin) - begin);
}

std::size_t open_descriptors() {
  const auto all = std::filesystem::directory_iterator("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

TEST_F(SshLauncherTest, ClosesEveryDescriptorHoweverASessionEnds) {
  const std::size_t before = open_descriptors();
  ASSERT_TRUE(make_ssh_launcher(node_, within(seconds(20))));
  EXPECT_EQ(open_descriptors(), before) << "a session that was not used";
  {
    auto launcher = make_ssh_launcher(node_, within(seconds(20)));
    ASSERT_TRUE(launcher);
    auto channel = (*launcher)->run("cat", within(seconds(20)));
    ASSERT_TRUE(channel);
    sshd_->signal_sessions(SIGKILL);
    EXPECT_EQ(read_all(channel->fd.get()), "");
  }
  EXPECT_EQ(open_descriptors(), before) << "a session that was lost";
  write(sshd_->known_hosts(), "");
  refusal();
  EXPECT_EQ(open_descriptors(), before) << "a session that was refused";
}

TEST_F(SshLauncherTest, RunsCommandsOneAfterTheOtherOnOneSession) {
  auto launcher = make_ssh_launcher(node_, within(seconds(20)));
  ASSERT_TRUE(launcher) << launcher.error().message;
  for (const std::string word : {"first", "second", "third"}) {
    auto channel = (*launcher)->run("printf " + word, within(seconds(20)));
    ASSERT_TRUE(channel) << channel.error().message;
    EXPECT_EQ(read_all(channel->fd.get()), word);
  }
  const std::string log = sshd_->log_with("Accepted publickey");
  const auto first = log.find("Accepted publickey");
  EXPECT_NE(first, log.npos);
  EXPECT_EQ(log.find("Accepted publickey", first + 1), log.npos) << "one session, one login";
  EXPECT_EQ(log.find("Failed none"), log.npos) << "no `none` probe";
}

TEST_F(SshLauncherTest, ChannelsLiveSideBySideAndOutliveTheLauncher) {
  auto launcher = make_ssh_launcher(node_, within(seconds(20)));
  ASSERT_TRUE(launcher) << launcher.error().message;
  auto one = (*launcher)->run("cat", within(seconds(20)));
  auto two = (*launcher)->run("cat", within(seconds(20)));
  ASSERT_TRUE(one && two);
  launcher->reset();
  ASSERT_TRUE(write_all(two->fd.get(), as_bytes("two"), within(seconds(20))));
  ASSERT_TRUE(write_all(one->fd.get(), as_bytes("one"), within(seconds(20))));
  ::shutdown(one->fd.get(), SHUT_WR);
  ::shutdown(two->fd.get(), SHUT_WR);
  EXPECT_EQ(read_all(one->fd.get()), "one");
  EXPECT_EQ(read_all(two->fd.get()), "two");
}

TEST_F(SshLauncherTest, BoundsTheNumberOfChannels) {
  auto launcher = make_ssh_launcher(node_, within(seconds(20)));
  ASSERT_TRUE(launcher) << launcher.error().message;
  std::vector<Channel> open;
  for (std::size_t i = 0; i < kMaxChannels; ++i) {
    auto channel = (*launcher)->run("cat", within(seconds(20)));
    ASSERT_TRUE(channel) << channel.error().message;
    open.push_back(*std::move(channel));
  }
  auto more = (*launcher)->run("cat", within(seconds(20)));
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, Errc::kResource);
  // Ended commands give their places back.
  for (Channel& channel : open) {
    ::shutdown(channel.fd.get(), SHUT_WR);
    EXPECT_EQ(read_all(channel.fd.get()), "");
  }
  open.clear();
  EXPECT_TRUE((*launcher)->run("cat", within(seconds(20))));
}

TEST_F(SshLauncherTest, CarriesManyBytesBothWaysUnchanged) {
  constexpr std::size_t kWords = std::size_t{32} * 1024 * 1024 / sizeof(std::uint64_t);
  std::vector<std::uint64_t> sent(kWords);
  Rng rng(7);
  for (std::uint64_t& word : sent) word = rng.next();
  const ByteSpan bytes = bytes_of(std::span<const std::uint64_t>(sent));

  auto launcher = make_ssh_launcher(node_, within(seconds(20)));
  ASSERT_TRUE(launcher) << launcher.error().message;
  auto channel = (*launcher)->run("cat", within(seconds(20)));
  ASSERT_TRUE(channel) << channel.error().message;
  const int fd = channel->fd.get();
  auto writer = std::async(std::launch::async, [&] {
    const bool written = bool(write_all(fd, bytes, within(seconds(50))));
    ::shutdown(fd, SHUT_WR);
    return written;
  });
  Bytes back(bytes.size());
  const Status status = read_exact(fd, back, within(seconds(50)));
  EXPECT_TRUE(writer.get());
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(crc32c(back), crc32c(bytes));
  EXPECT_TRUE(std::equal(back.begin(), back.end(), bytes.begin()));
  EXPECT_EQ(read_all(fd), "") << "nothing after the end";
}

TEST_F(SshLauncherTest, KeepsTheLastFourKibibytesOfStderr) {
  auto launcher = make_ssh_launcher(node_, within(seconds(20)));
  ASSERT_TRUE(launcher) << launcher.error().message;
  auto channel =
      (*launcher)->run("seq 1 20000 >&2; printf 'the end' >&2; printf out", within(seconds(20)));
  ASSERT_TRUE(channel) << channel.error().message;
  EXPECT_EQ(read_all(channel->fd.get()), "out");
  const std::string tail = channel->stderr_tail();
  EXPECT_EQ(tail.size(), kStderrTailBytes);
  EXPECT_TRUE(tail.ends_with("20000\nthe end")) << tail;
}

TEST_F(SshLauncherTest, ClosingTheChannelEndsTheCommandsInput) {
  const std::string mark = sshd_->folder() + "/mark";
  auto launcher = make_ssh_launcher(node_, within(seconds(20)));
  ASSERT_TRUE(launcher) << launcher.error().message;
  ASSERT_EQ(*test::run_program({"/usr/bin/mkfifo", mark}), 0);
  auto channel = (*launcher)->run("cat > /dev/null; echo ended > " + mark, within(seconds(20)));
  ASSERT_TRUE(channel) << channel.error().message;
  channel->fd.reset();
  auto reader = (*launcher)->run("cat " + mark, within(seconds(20)));
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_EQ(read_all(reader->fd.get()), "ended\n");
}

TEST_F(SshLauncherTest, RefusesAnUnknownHostKeyAndShowsItsFingerprint) {
  write(sshd_->known_hosts(), "");
  const Error error = refusal();
  EXPECT_EQ(error.code, Errc::kAuth);
  EXPECT_NE(error.message.find(
                fingerprint_of(sshd_->folder() + "/host_key.pub", sshd_->folder() + "/print")),
            std::string::npos)
      << error.message;
  EXPECT_NE(error.message.find("node-0"), std::string::npos);
  EXPECT_NE(error.hint.find(fmt::format("ssh-keyscan -p {} {} >> {}", sshd_->port(),
                                        sshd_->address(), sshd_->known_hosts())),
            std::string::npos)
      << error.hint;
  const std::string log = sshd_->log_with("[preauth]");
  EXPECT_NE(log.find("[preauth]"), std::string::npos) << log;
  EXPECT_EQ(log.find("Accepted"), std::string::npos) << "no key was offered";
  EXPECT_EQ(*read_file(sshd_->known_hosts()), "") << "trust is never added silently";
}

TEST_F(SshLauncherTest, RefusesAMissingKnownHostsFile) {
  node_.known_hosts = sshd_->folder() + "/absent";
  EXPECT_EQ(refusal().code, Errc::kAuth);
  EXPECT_FALSE(std::filesystem::exists(node_.known_hosts));
}

TEST_F(SshLauncherTest, RefusesAChangedHostKey) {
  const std::string other = sshd_->folder() + "/other_key";
  ASSERT_TRUE(test::make_key(other));
  write(sshd_->known_hosts(),
        fmt::format("[{}]:{} {}", sshd_->address(), sshd_->port(), *read_file(other + ".pub")));
  const Error error = refusal();
  EXPECT_EQ(error.code, Errc::kAuth);
  EXPECT_NE(error.message.find(
                fingerprint_of(sshd_->folder() + "/host_key.pub", sshd_->folder() + "/print")),
            std::string::npos)
      << error.message;
  EXPECT_NE(error.message.find(sshd_->known_hosts()), std::string::npos);
  EXPECT_EQ(error.hint.find("ssh-keyscan"), std::string::npos) << "not a thing to wave through";
}

TEST_F(SshLauncherTest, RefusesAWrongKeyAndNamesWhatWasTried) {
  const std::string wrong = sshd_->folder() + "/wrong_key";
  const std::string fallback = node_.ssh_directory + "/id_ecdsa";
  ASSERT_TRUE(test::make_key(wrong));
  ASSERT_TRUE(test::make_key(fallback));
  node_.identity = wrong;
  const Error error = refusal();
  EXPECT_EQ(error.code, Errc::kAuth);
  EXPECT_NE(error.message.find(wrong), std::string::npos) << error.message;
  EXPECT_NE(error.message.find(fallback), std::string::npos) << error.message;
  EXPECT_NE(error.hint.find("never a password"), std::string::npos);
}

TEST_F(SshLauncherTest, FallsBackToTheDefaultKeyOfTheSshFolder) {
  node_.identity.clear();
  std::filesystem::copy_file(sshd_->identity(), node_.ssh_directory + "/id_ed25519");
  auto launcher = make_ssh_launcher(node_, within(seconds(20)));
  EXPECT_TRUE(launcher) << launcher.error().message;
}

TEST_F(SshLauncherTest, HonoursAnAliasInTheConfigFile) {
  write(node_.ssh_directory + "/config",
        fmt::format("Host trainbox\n  HostName {}\n  Port {}\n  IdentityFile {}\n"
                    "  UserKnownHostsFile {}\n",
                    sshd_->address(), sshd_->port(), sshd_->identity(), sshd_->known_hosts()));
  NodeSpec node;
  node.name = "alias";
  node.host = "trainbox";
  node.ssh_directory = node_.ssh_directory;
  auto launcher = make_ssh_launcher(node, within(seconds(20)));
  ASSERT_TRUE(launcher) << launcher.error().message;
  auto channel = (*launcher)->run("printf here", within(seconds(20)));
  ASSERT_TRUE(channel);
  EXPECT_EQ(read_all(channel->fd.get()), "here");
}

TEST_F(SshLauncherTest, HonoursTheUserInTheConfigFile) {
  write(node_.ssh_directory + "/config", "Host *\n  User nobody-of-that-name\n");
  const Error error = refusal();
  EXPECT_EQ(error.code, Errc::kAuth);
  EXPECT_NE(error.message.find("nobody-of-that-name"), std::string::npos) << error.message;
}

TEST_F(SshLauncherTest, GoesThroughAJumpHostAndChecksBothKeys) {
  auto bastion = Sshd::start("127.0.0.3");
  ASSERT_TRUE(bastion) << bastion.error().message;
  node_.jump = fmt::format("{}:{}", (*bastion)->address(), (*bastion)->port());
  EXPECT_EQ(refusal().code, Errc::kAuth) << "the bastion's key is not known yet";

  write(node_.known_hosts, *read_file(node_.known_hosts) + *read_file((*bastion)->known_hosts()));
  write((*bastion)->folder() + "/authorized_keys", *read_file(sshd_->identity() + ".pub"));
  auto launcher = make_ssh_launcher(node_, within(seconds(20)));
  ASSERT_TRUE(launcher) << launcher.error().message;
  auto channel = (*launcher)->run("printf \"$SSH_CONNECTION\"", within(seconds(20)));
  ASSERT_TRUE(channel);
  EXPECT_NE(read_all(channel->fd.get()).find(fmt::format(" 127.0.0.2 {}", sshd_->port())),
            std::string::npos);
  EXPECT_NE((*bastion)->log_with("Accepted publickey").find("Accepted publickey"),
            std::string::npos);
}

TEST_F(SshLauncherTest, NamesAPortNobodyListensOn) {
  const std::uint16_t port = node_.ssh_port;
  sshd_.reset();
  auto launcher = make_ssh_launcher(node_, within(seconds(20)));
  ASSERT_FALSE(launcher);
  EXPECT_EQ(launcher.error().code, Errc::kUnreachable);
  EXPECT_NE(launcher.error().message.find(fmt::format("127.0.0.2:{}", port)), std::string::npos)
      << launcher.error().message;
}

TEST_F(SshLauncherTest, GivesUpOnASilentServerAtTheDeadline) {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof where;
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&where), size), 0);
  ASSERT_EQ(::listen(listener.get(), 4), 0);
  ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&where), &size);
  node_.host = "127.0.0.1";
  node_.ssh_port = ntohs(where.sin_port);
  auto launcher = make_ssh_launcher(node_, within(seconds(1)));
  ASSERT_FALSE(launcher);
  EXPECT_EQ(launcher.error().code, Errc::kUnreachable);
  EXPECT_NE(launcher.error().message.find(fmt::format("127.0.0.1:{}", node_.ssh_port)),
            std::string::npos)
      << launcher.error().message;
}

TEST_F(SshLauncherTest, AServerThatDiesInATransferEndsTheChannel) {
  auto launcher = make_ssh_launcher(node_, within(seconds(20)));
  ASSERT_TRUE(launcher) << launcher.error().message;
  auto channel = (*launcher)->run("cat /dev/zero", within(seconds(20)));
  ASSERT_TRUE(channel) << channel.error().message;
  Bytes some(1U << 20U);
  ASSERT_TRUE(read_exact(channel->fd.get(), some, within(seconds(20))));
  sshd_->signal_sessions(SIGKILL);
  Status status;
  const TimePoint deadline = within(seconds(20));
  while (status) status = read_exact(channel->fd.get(), some, deadline);
  EXPECT_EQ(status.error().message, "closed by peer") << "before the deadline, not because of it";
  EXPECT_NE(channel->stderr_tail().find("connection lost"), std::string::npos);
  auto next = (*launcher)->run("printf no", within(seconds(20)));
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error().code, Errc::kUnreachable);
}

TEST_F(SshLauncherTest, AFrozenServerFailsAtTheCallersDeadline) {
  auto launcher = make_ssh_launcher(node_, within(seconds(20)));
  ASSERT_TRUE(launcher) << launcher.error().message;
  sshd_->signal_sessions(SIGSTOP);
  auto channel = (*launcher)->run("printf no", within(seconds(1)));
  ASSERT_FALSE(channel);
  EXPECT_EQ(channel.error().code, Errc::kUnreachable);
  EXPECT_NE(channel.error().message.find(fmt::format(":{}", sshd_->port())), std::string::npos);
}

TEST_F(SshLauncherTest, RefusesHostileNamesBeforeConnecting) {
  for (const char* host : {"-oProxyCommand=touch /tmp/x", "a;b", "$(id)", "a b", "a\nb", "`id`",
                           "user@host", "a/b", "", ".hidden", "a|b", "a'b", "a\"b", "a\\b"}) {
    node_.host = host;
    EXPECT_EQ(refusal().code, Errc::kUsage) << host;
  }
  node_.host = sshd_->address();
  for (const char* user : {"-l", "root;id", "$USER", "a b", "a@b", "a\\b", "a:b"}) {
    node_.user = user;
    EXPECT_EQ(refusal().code, Errc::kUsage) << user;
  }
  node_.user.clear();
  for (const char* jump : {"-J", "a;b", "u@h@x", "host:0", "host:99999", "host:22x", "$(id):22"}) {
    node_.jump = jump;
    EXPECT_EQ(refusal().code, Errc::kUsage) << jump;
  }
}

TEST(JumpHost, ReadsUserHostAndPort) {
  const auto jump = parse_jump("train@bastion.lab:2222");
  ASSERT_TRUE(jump);
  EXPECT_EQ(jump->user, "train");
  EXPECT_EQ(jump->host, "bastion.lab");
  EXPECT_EQ(jump->port, 2222);
  EXPECT_EQ(parse_jump("[::1]:23")->host, "::1");
  EXPECT_EQ(parse_jump("[::1]:23")->port, 23);
  EXPECT_EQ(parse_jump("fe80::1")->host, "fe80::1");
  EXPECT_EQ(parse_jump("host")->port, 0);
}

}  // namespace
}  // namespace paddle::remote
