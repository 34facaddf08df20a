// The SSH launcher's channels against a real sshd on a loopback address.
#include <netinet/in.h>
#include <sys/socket.h>

#include <future>
#include <thread>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/rng.h"
#include "remote/launcher/ssh_pump.h"
#include "tests/e2e/ssh_fixture.h"
#include "tests/support/temporary_folder.h"

namespace paddle::remote {
namespace {

std::size_t open_descriptors() {
  const auto all = std::filesystem::directory_iterator("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

TEST_F(SshLauncherTest, ClosesEveryDescriptorHoweverASessionEnds) {
  ASSERT_TRUE(make_ssh_launcher(node_, within(seconds(20))));  // libraries keep some for good
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

TEST_F(SshLauncherTest, UsersOfADirectoryReachTheServerUnderTheirWholeNames) {
  for (const char* user : {"CORP\\alice", "alice@corp.example", "CORP+alice"}) {
    node_.user = user;
    const Error error = refusal();
    EXPECT_EQ(error.code, Errc::kAuth) << error.message;
    EXPECT_NE(error.message.find(std::string("no key is accepted for user ") + user),
              std::string::npos)
        << error.message;
  }
  for (const char* shown :
       {"Invalid user CORP\\", "Invalid user alice@corp.example ", "Invalid user CORP+alice "}) {
    EXPECT_NE(sshd_->log_with(shown).find(shown), std::string::npos) << sshd_->log_with(shown);
  }
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

TEST_F(SshLauncherTest, NamesAPortNobodyListensOn) {
  const std::uint16_t port = node_.ssh_port;
  const test::TemporaryFolder directory;
  node_.ssh_directory = directory.path();
  node_.known_hosts = directory / "known_hosts";
  node_.identity = directory.write("key", *read_file(node_.identity));
  sshd_.reset();
  auto launcher = make_ssh_launcher(node_, within(seconds(20)));
  ASSERT_FALSE(launcher);
  EXPECT_EQ(launcher.error().code, Errc::kUnreachable);
  EXPECT_NE(launcher.error().message.find(fmt::format("127.0.0.2:{}", port)), std::string::npos)
      << launcher.error().message;
  EXPECT_EQ(launcher.error().hint.find('?'), std::string::npos) << "commands add \"; or ...\"";
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

}  // namespace
}  // namespace paddle::remote
