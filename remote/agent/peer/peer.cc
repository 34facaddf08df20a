#include "remote/agent/peer/peer.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "remote/agent/machine/host.h"

namespace paddle::agent {

using namespace wire::agent;  // NOLINT: the messages are what this file is about

namespace {

constexpr Duration kConnectDeadline = std::chrono::seconds(3);
constexpr Duration kProofDeadline = std::chrono::seconds(3);
constexpr int kListenerFd = STDERR_FILENO + 1;
constexpr int kFolderFd = kListenerFd + 1;
constexpr int kPortMax = 65535;
constexpr int kStopMs = 5000;

Result<IpEndpoint> parse_target(const ProbeTarget& target, bool any_port) {
  if ((target.port() == 0 && !any_port) || target.port() > kPortMax)
    return Error{Errc::kUsage, "a port lies in 1..65535", ""};
  return parse_ip(target.address(), target.port());
}

[[noreturn]] void become_listener(int listener, const Secret& token, PeerService service,
                                  pid_t agent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::signal(SIGPIPE, SIG_IGN);
  if (::getppid() != agent) ::_exit(0);  // the agent ended before the call above
  // Close all of the agent's descriptors, its channel above all, but the ones that are served.
  const UniqueFd kept(::fcntl(service.folder, F_DUPFD, kFolderFd + 1));
  if (::dup2(listener, kListenerFd) < 0) ::_exit(1);
  if (kept && ::dup2(kept.get(), kFolderFd) < 0) ::_exit(1);
  ::close_range(kept ? kFolderFd + 1 : kFolderFd, ~0U, 0);
  service.folder = kept ? kFolderFd : -1;
  Answerer(kListenerFd, token, service).run(SteadyClock().now() + service.time_max);
  ::_exit(0);
}

ProbeOutcome outcome_of(int error) {
  switch (error) {
    case ECONNREFUSED:
      return PROBE_REFUSED;
    case ETIMEDOUT:
      return PROBE_TIMED_OUT;
    default:
      return PROBE_NO_ROUTE;
  }
}

// 0 or an errno.
int connect_before(int fd, const IpEndpoint& name, TimePoint deadline) {
  if (::connect(fd, name.data(), name.size) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd item{fd, POLLOUT, 0};
  while (::poll(&item, 1, milliseconds_until(deadline)) <= 0) {
    if (SteadyClock().now() >= deadline) return ETIMEDOUT;
  }
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

}  // namespace

Result<UniqueFd> listen_for_peers(const ProbeTarget& at) {
  PADDLE_TRY(const IpEndpoint name, parse_target(at, true));
  UniqueFd socket = listen_at(name);
  if (!socket) {
    return system_error(Errc::kResource,
                        "listen on " + at.address() + ", port " + std::to_string(at.port()));
  }
  PADDLE_TRY_STATUS(set_nonblocking(socket.get()));
  return socket;
}

Status PeerListener::start(UniqueFd socket, ByteSpan token, const PeerService& service) {
  stop();
  PADDLE_TRY(const Secret secret, Secret::from_bytes(token));
  const pid_t agent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return system_error(Errc::kResource, "fork");
  if (pid == 0) become_listener(socket.get(), secret, service, agent);
  process_ = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (process_) return {};
  Error error = system_error(Errc::kResource, "pidfd_open");
  ::kill(pid, SIGKILL);
  return error;
}

void PeerListener::stop() {
  if (!process_) return;
  ::syscall(SYS_pidfd_send_signal, process_.get(), SIGKILL, nullptr, 0);
  pollfd item{process_.get(), POLLIN, 0};
  ::poll(&item, 1, kStopMs);
  process_.reset();
}

Result<PeerCall> call_peer(const ProbeTarget& target, ByteSpan caller_key,
                           std::string_view service) {
  PADDLE_TRY(const IpEndpoint name, parse_target(target, false));
  PADDLE_TRY(const Secret key, Secret::from_bytes(caller_key));
  UniqueFd fd(::socket(name.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return system_error(Errc::kResource, "socket");
  if (const int error = connect_before(fd.get(), name, SteadyClock().now() + kConnectDeadline);
      error != 0)
    return PeerCall{{}, outcome_of(error), std::strerror(error)};
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  auto keys = prove_to_listener(fd.get(), key, target.caller(), service,
                                SteadyClock().now() + kProofDeadline);
  if (!keys) return PeerCall{{}, PROBE_NO_PROOF, keys.error().message};
  return PeerCall{PeerConnection{std::move(fd), *std::move(keys)}, PROBE_REACHED, ""};
}

}  // namespace paddle::agent
