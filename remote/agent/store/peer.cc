#include "remote/agent/store/peer.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/caller_source.h"
#include "remote/agent/node/host.h"

namespace paddle::agent {

using namespace wire::agent;  // NOLINT: this file is about the messages

namespace {

constexpr Duration kConnectDeadline = std::chrono::seconds(3);
constexpr Duration kProofDeadline = std::chrono::seconds(3);
constexpr int kListenerFd = STDERR_FILENO + 1;
constexpr int kFolderFd = kListenerFd + 1;
constexpr int kPortMax = 65535;
constexpr int kStopMs = 5000;

constexpr Duration kClaimDeadline = std::chrono::seconds(3);
constexpr std::size_t kUnprovenMax = 64;
constexpr std::ptrdiff_t kUnprovenOfAddressMax = 16;
constexpr std::ptrdiff_t kPlaces = 8;
constexpr std::size_t kOwnItems = 2;  // poll() items of the listener and wake_

// Sends a few bytes without waiting; a new connection has buffer space for them.
bool send_now(int fd, ByteSpan bytes) {
  return ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(bytes.size());
}

// Ends the thread that serves the connection, and drops the bytes that the caller has not read.
void hang_up(const PeerConnection& connection) {
  const linger none{1, 0};
  ::setsockopt(connection.fd.get(), SOL_SOCKET, SO_LINGER, &none, sizeof none);
  ::shutdown(connection.fd.get(), SHUT_RDWR);
}

// The callers of one listener: those that still have to prove their key, and those that are served.
//
// A caller has one connection at a time, so that it cannot occupy the places of other callers; a
// newer connection ends the older one. Callers that have not proved their key are limited
// separately: to kUnprovenMax in all and to kUnprovenOfAddressMax from one address. At a limit the
// oldest caller that counts towards it is dropped.
class PeerServer {
 public:
  PeerServer(int listener, const Secret& token, PeerService service);
  void run(TimePoint end);

 private:
  struct Unproven {
    UniqueFd fd;
    CallerSource source;
    TimePoint deadline;
    Nonce nonce{};
    PeerClaim claim{};
    std::size_t size = 0;  // bytes of the claim received so far
  };
  struct Proven {
    Proven(std::uint32_t number, PeerConnection proven)
        : caller(number), connection(std::move(proven)) {}
    std::uint32_t caller;
    PeerConnection connection;
    TimePoint deadline = TimePoint::max();
    bool served = false;  // on a thread of its own, which sets `ended`
    std::atomic<bool> ended = false;
  };

  void admit();
  void make_room(const CallerSource& source);
  void receive_claim(std::size_t index);
  void accept(ProvenCaller proven, UniqueFd fd);
  void end_late();
  void serve_waiting();
  void serve(const std::shared_ptr<Proven>& one);

  const int listener_;
  const Secret token_;
  const PeerService service_;
  UniqueFd wake_;                                // an eventfd
  std::vector<Unproven> unproven_;               // the oldest first
  std::vector<std::shared_ptr<Proven>> proven_;  // the oldest first
};

PeerServer::PeerServer(int listener, const Secret& token, PeerService service)
    : listener_(listener),
      token_(token),
      service_(std::move(service)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void PeerServer::run(TimePoint end) {
  while (SteadyClock().now() < end) {
    end_late();
    serve_waiting();
    std::vector<pollfd> items{{listener_, POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    TimePoint wake = end;
    for (const Unproven& one : unproven_) {
      items.push_back({one.fd.get(), POLLIN, 0});
      wake = std::min(wake, one.deadline);
    }
    for (const auto& one : proven_) wake = std::min(wake, one->deadline);
    if (::poll(items.data(), items.size(), milliseconds_until(wake)) < 0 && errno != EINTR) return;
    for (std::size_t i = items.size(); i-- > kOwnItems;) {
      if (items[i].revents != 0) receive_claim(i - kOwnItems);
    }
    std::uint64_t ended = 0;
    if (items[1].revents != 0) std::ignore = ::read(wake_.get(), &ended, sizeof ended);
    if (items[0].revents != 0) admit();
  }
}

void PeerServer::admit() {
  IpEndpoint from;
  from.size = sizeof from.storage;
  UniqueFd fd(::accept4(listener_, from.data(), &from.size, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!fd) return;
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const auto nonce = random_nonce();
  if (!nonce || !send_now(fd.get(), *nonce)) return;
  const CallerSource source = source_of(from.data());
  make_room(source);
  unproven_.push_back({std::move(fd), source, SteadyClock().now() + kClaimDeadline, *nonce, {}, 0});
}

// An honest caller proves its key within a round trip, so the oldest caller without a proof is the
// least likely to be honest.
void PeerServer::make_room(const CallerSource& source) {
  if (std::ranges::count(unproven_, source, &Unproven::source) >= kUnprovenOfAddressMax) {
    unproven_.erase(std::ranges::find(unproven_, source, &Unproven::source));
  } else if (unproven_.size() >= kUnprovenMax) {
    unproven_.erase(unproven_.begin());
  }
}

void PeerServer::receive_claim(std::size_t index) {
  Unproven& caller = unproven_[index];
  const std::span<std::byte> rest = std::span(caller.claim).subspan(caller.size);
  const ssize_t got = ::read(caller.fd.get(), rest.data(), rest.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  caller.size += static_cast<std::size_t>(std::max<ssize_t>(got, 0));
  if (got > 0 && caller.size < caller.claim.size()) return;
  Unproven complete = std::move(caller);
  unproven_.erase(unproven_.begin() + static_cast<std::ptrdiff_t>(index));
  if (got <= 0) return;
  if (auto proven = check_claim(token_, service_.name, complete.nonce, complete.claim))
    accept(*std::move(proven), std::move(complete.fd));
}

void PeerServer::accept(ProvenCaller proven, UniqueFd fd) {
  if (!send_now(fd.get(), proven.keys.listener_proof.reveal())) return;
  for (const auto& older : proven_) {
    if (older->caller != proven.caller) continue;
    hang_up(older->connection);
    if (!older->served) older->ended = true;
  }
  proven_.push_back(std::make_shared<Proven>(
      proven.caller, PeerConnection{std::move(fd), std::move(proven.keys)}));
}

void PeerServer::end_late() {
  const TimePoint now = SteadyClock().now();
  std::erase_if(unproven_, [&](const Unproven& one) { return now >= one.deadline; });
  std::erase_if(proven_, [](const auto& one) { return one->ended.load(); });
  for (const auto& one : proven_) {
    if (now < one->deadline) continue;
    hang_up(one->connection);
    one->deadline = TimePoint::max();  // its thread soon ends
  }
}

void PeerServer::serve_waiting() {
  for (const auto& one : proven_) {
    const auto has_place = [&](const auto& other) {
      return other->served && other->caller == one->caller;
    };
    if (one->served || std::ranges::any_of(proven_, has_place)) continue;
    const auto is_served = [](const auto& other) { return other->served; };
    if (std::ranges::count_if(proven_, is_served) >= kPlaces) return;
    serve(one);
  }
}

void PeerServer::serve(const std::shared_ptr<Proven>& one) {
  one->served = true;
  one->deadline = SteadyClock().now() + service_.connection_max;
  std::thread([this, one] {
    service_.serve(one->connection, service_.folder);
    one->ended = true;
    const std::uint64_t count = 1;
    std::ignore = ::write(wake_.get(), &count, sizeof count);
  }).detach();
}

Result<IpEndpoint> parse_target(const ProbeTarget& target, bool any_port) {
  if ((target.port() == 0 && !any_port) || target.port() > kPortMax)
    return Error{Errc::kUsage, "the port is not in 1..65535", ""};
  return parse_ip(target.address(), target.port());
}

[[noreturn]] void become_listener(int listener, const Secret& token, PeerService service,
                                  pid_t agent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::signal(SIGPIPE, SIG_IGN);
  if (::getppid() != agent) ::_exit(0);  // the agent ended before the call above
  // Closes all descriptors of the agent, above all its channel, except the listener and the folder
  // that is served.
  const UniqueFd kept(::fcntl(service.folder, F_DUPFD, kFolderFd + 1));
  if (::dup2(listener, kListenerFd) < 0) ::_exit(1);
  if (kept && ::dup2(kept.get(), kFolderFd) < 0) ::_exit(1);
  ::close_range(kept ? kFolderFd + 1 : kFolderFd, ~0U, 0);
  service.folder = kept ? kFolderFd : -1;
  PeerServer(kListenerFd, token, service).run(SteadyClock().now() + service.time_max);
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

// Connects before the deadline. Returns 0 or an errno.
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
