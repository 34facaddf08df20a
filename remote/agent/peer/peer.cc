#include "remote/agent/peer/peer.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <semaphore>
#include <thread>
#include <vector>

#include "base/secret.h"
#include "base/sha256.h"
#include "proto/frame_stream.h"
#include "remote/agent/machine/host.h"

namespace paddle::agent {

using namespace wire::agent;  // NOLINT: the messages are what this file is about

namespace {

constexpr Duration kCallerProofDeadline = std::chrono::seconds(2);
constexpr std::size_t kCallersMax = 16;  // unproven
constexpr Duration kConnectDeadline = std::chrono::seconds(3);
constexpr Duration kProofDeadline = std::chrono::seconds(3);
constexpr int kListenerFd = STDERR_FILENO + 1;
constexpr int kFolderFd = kListenerFd + 1;
constexpr int kPortMax = 65535;
constexpr int kStopMs = 5000;

TimePoint now() {
  return std::chrono::steady_clock::now();
}

Result<sockaddr_in> parse_target(const ProbeTarget& target, ByteSpan token, bool any_port) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  if (::inet_pton(AF_INET, target.address().c_str(), &name.sin_addr) != 1)
    return Error{Errc::kUsage, "'" + target.address() + "' is not an IPv4 address", ""};
  if ((target.port() == 0 && !any_port) || target.port() > kPortMax)
    return Error{Errc::kUsage, "a port lies in 1..65535", ""};
  if (token.size() != kPeerTokenBytes) return Error{Errc::kData, "a token has 32 bytes", ""};
  name.sin_port = htons(static_cast<std::uint16_t>(target.port()));
  return name;
}

Sha256Digest proof(ByteSpan token, std::string_view service, std::string_view side) {
  Sha256 hash;
  hash.update(token);
  hash.update(as_bytes("paddlectl "));
  hash.update(as_bytes(service));
  hash.update(as_bytes(" 1 "));
  hash.update(as_bytes(side));
  return hash.finish();
}

void send_at_once(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// The listener's side, in a process of its own.
class Answerer {
 public:
  Answerer(int listener, ByteSpan token, const PeerListener::Service& service)
      : listener_(listener),
        wanted_(proof(token, service.name, "caller")),
        answer_(proof(token, service.name, "listener")),
        serve_(service.serve),
        free_(service.at_once) {}

  void run(TimePoint end) {
    while (now() < end) {
      std::erase_if(callers_, [](const Caller& caller) { return now() >= caller.deadline; });
      std::vector<pollfd> items{{listener_, POLLIN, 0}};
      TimePoint wake = end;
      for (const Caller& caller : callers_) {
        items.push_back({caller.fd.get(), POLLIN, 0});
        wake = std::min(wake, caller.deadline);
      }
      if (::poll(items.data(), items.size(), milliseconds_until(wake)) < 0 && errno != EINTR)
        return;
      for (std::size_t i = items.size(); i-- > 1;) {
        if (items[i].revents != 0) hear(i - 1);
      }
      if (items[0].revents != 0) admit();
    }
  }

 private:
  struct Caller {
    UniqueFd fd;
    TimePoint deadline;
    Sha256Digest said{};
    std::size_t size = 0;
  };

  void admit() {
    UniqueFd fd(::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) return;
    if (callers_.size() >= kCallersMax) callers_.erase(callers_.begin());
    callers_.push_back({std::move(fd), now() + kCallerProofDeadline, {}, 0});
  }

  void hear(std::size_t index) {
    Caller& caller = callers_[index];
    const ssize_t got =
        ::read(caller.fd.get(), caller.said.data() + caller.size, caller.said.size() - caller.size);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    caller.size += static_cast<std::size_t>(std::max<ssize_t>(got, 0));
    if (got > 0 && caller.size < caller.said.size()) return;
    UniqueFd fd = std::move(caller.fd);
    const bool proven = got > 0 && equal_constant_time(caller.said, wanted_);
    callers_.erase(callers_.begin() + static_cast<std::ptrdiff_t>(index));
    if (!proven) return;
    send_at_once(fd.get());
    if (!write_all(fd.get(), answer_, now() + kCallerProofDeadline)) return;
    // The next caller waits here; those being served have a deadline.
    free_.acquire();
    std::thread([this, held = std::move(fd)] {
      serve_(held.get(), kFolderFd);
      free_.release();
    }).detach();
  }

  int listener_;
  Sha256Digest wanted_, answer_;
  const PeerListener::Serve& serve_;
  std::counting_semaphore<> free_;
  std::vector<Caller> callers_;  // the oldest first
};

[[noreturn]] void become_listener(int listener, ByteSpan token,
                                  const PeerListener::Service& service, pid_t agent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != agent) ::_exit(0);  // the agent ended before the call above
  // Close all of the agent's descriptors, its channel above all, but the ones that are served.
  const UniqueFd kept(::fcntl(service.folder, F_DUPFD, kFolderFd + 1));
  if (::dup2(listener, kListenerFd) < 0) ::_exit(1);
  if (kept && ::dup2(kept.get(), kFolderFd) < 0) ::_exit(1);
  ::close_range(kept ? kFolderFd + 1 : kFolderFd, ~0U, 0);
  Answerer(kListenerFd, token, service).run(now() + service.time_max);
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
int connect_before(int fd, const sockaddr_in& name, TimePoint deadline) {
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd item{fd, POLLOUT, 0};
  while (::poll(&item, 1, milliseconds_until(deadline)) <= 0) {
    if (now() >= deadline) return ETIMEDOUT;
  }
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

Status prove(int fd, ByteSpan token, std::string_view service) {
  const TimePoint deadline = now() + kProofDeadline;
  Sha256Digest answer{};
  PADDLE_TRY_STATUS(write_all(fd, proof(token, service, "caller"), deadline));
  PADDLE_TRY_STATUS(read_exact(fd, answer, deadline));
  if (equal_constant_time(answer, proof(token, service, "listener"))) return {};
  return Error{Errc::kAuth, "its answer is not the right one", ""};
}

}  // namespace

Result<UniqueFd> listen_for_peers(const ProbeTarget& at, ByteSpan token) {
  PADDLE_TRY(const sockaddr_in name, parse_target(at, token, true));
  UniqueFd socket = listen_at(name.sin_addr, at.port());
  if (!socket) {
    return system_error(Errc::kResource,
                        "listen on " + at.address() + ":" + std::to_string(at.port()));
  }
  PADDLE_TRY_STATUS(set_nonblocking(socket.get()));
  return socket;
}

Status PeerListener::start(UniqueFd socket, ByteSpan token, const Service& service) {
  stop();
  const pid_t agent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return system_error(Errc::kResource, "fork");
  if (pid == 0) become_listener(socket.get(), token, service, agent);
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

Result<PeerCall> call_peer(const ProbeTarget& target, ByteSpan token, std::string_view service) {
  PADDLE_TRY(const sockaddr_in name, parse_target(target, token, false));
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return system_error(Errc::kResource, "socket");
  if (const int error = connect_before(fd.get(), name, now() + kConnectDeadline); error != 0)
    return PeerCall{{}, outcome_of(error), std::strerror(error)};
  send_at_once(fd.get());
  if (const Status proven = prove(fd.get(), token, service); !proven)
    return PeerCall{{}, PROBE_NO_PROOF, proven.error().message};
  return PeerCall{std::move(fd), PROBE_REACHED, ""};
}

}  // namespace paddle::agent
