#include "remote/launcher/ssh/agent_relay.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>

namespace paddle::remote {
namespace {

constexpr std::size_t kRelayChunkBytes = 4096;

Result<UniqueFd> connect_agent(const std::string& path) {
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  if (path.size() >= sizeof where.sun_path)
    return Error{Errc::kUsage, "SSH_AUTH_SOCK is too long", ""};
  path.copy(where.sun_path, path.size());
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd || ::connect(fd.get(), reinterpret_cast<sockaddr*>(&where), sizeof where) != 0)
    return system_error(Errc::kUnreachable, path);
  return fd;
}

// Forwards available bytes; false at the end.
bool pass_on(int from, int to, TimePoint deadline) {
  std::array<std::byte, kRelayChunkBytes> chunk;
  const ssize_t got = ::recv(from, chunk.data(), chunk.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (got <= 0) return false;
  const auto size = static_cast<std::size_t>(got);
  return static_cast<bool>(write_all(to, std::span(chunk).first(size), deadline));
}

}  // namespace

bool agent_answers(const std::string& path, TimePoint deadline) {
  constexpr std::byte kRequestIdentities[] = {std::byte{0}, std::byte{0}, std::byte{0},
                                              std::byte{1}, std::byte{11}};
  const auto fd = connect_agent(path);
  std::byte first{};
  return fd && write_all(fd->get(), kRequestIdentities, deadline) &&
         read_exact(fd->get(), std::span(&first, 1), deadline);
}

Result<std::unique_ptr<SshAgentRelay>> SshAgentRelay::start(const std::string& path,
                                                            TimePoint deadline) {
  PADDLE_TRY(UniqueFd agent, connect_agent(path));
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    return system_error(Errc::kResource, "socketpair");
  return std::unique_ptr<SshAgentRelay>(
      new SshAgentRelay(UniqueFd(pair[0]), UniqueFd(pair[1]), std::move(agent), deadline));
}

SshAgentRelay::SshAgentRelay(UniqueFd of_libssh, UniqueFd session, UniqueFd agent,
                             TimePoint deadline)
    : of_libssh_(std::move(of_libssh)),
      session_(std::move(session)),
      agent_(std::move(agent)),
      thread_([this, deadline] { run(deadline); }) {}

SshAgentRelay::~SshAgentRelay() {
  ::shutdown(session_.get(), SHUT_RDWR);
  thread_.join();
}

void SshAgentRelay::run(TimePoint deadline) {
  bool owed = false;  // an answer by the agent
  for (bool open = true; open;) {
    const int timeout = milliseconds_until(deadline);
    if (timeout == 0) {
      gave_up_ = owed;
      break;
    }
    pollfd items[2] = {{session_.get(), POLLIN, 0}, {agent_.get(), POLLIN, 0}};
    if (::poll(items, 2, timeout) < 0 && errno != EINTR) break;
    if (items[0].revents != 0) {
      owed = true;
      open = pass_on(session_.get(), agent_.get(), deadline);
    }
    if (open && items[1].revents != 0) {
      owed = false;
      open = pass_on(agent_.get(), session_.get(), deadline);
    }
  }
  ::shutdown(session_.get(), SHUT_RDWR);
  ::shutdown(agent_.get(), SHUT_RDWR);
}

}  // namespace paddle::remote
