#include "engine/net/peer/mesh.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <list>

#include <fmt/format.h>

#include "base/log.h"
#include "base/rng.h"

namespace paddle::net::peer {
namespace {

constexpr int kBacklog = 512;
constexpr Duration kBackoffMin = std::chrono::milliseconds(20);
constexpr Duration kBackoffMax = std::chrono::milliseconds(500);
constexpr Duration kLook = std::chrono::milliseconds(50);  // how often stop_asked() is asked
constexpr std::size_t kAcceptsPerLook = 64;
constexpr Duration kRefusalLogPeriod = std::chrono::seconds(1);

TimePoint now() {
  return SteadyClock().now();
}

// Loss is judged by Connection::unacknowledged(): the kernel's timeout would also end a connection
// to a rank that is busy for long and reads nothing.
Status set_options(int fd) {
  PADDLE_TRY_STATUS(set_socket_options(fd));
  const unsigned none = 0;
  if (::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &none, sizeof none) != 0) {
    return system_error(Errc::kUnreachable, "setsockopt");
  }
  return {};
}

// Without a listener, the kernel may give us the port that we call, and TCP connects to itself.
bool is_self_connected(int fd) {
  asio::ip::tcp::endpoint local;
  asio::ip::tcp::endpoint remote;
  auto local_size = static_cast<socklen_t>(local.capacity());
  auto remote_size = static_cast<socklen_t>(remote.capacity());
  return ::getsockname(fd, local.data(), &local_size) == 0 &&
         ::getpeername(fd, remote.data(), &remote_size) == 0 && local == remote;
}

// A call to a lower rank: it waits for its next try, connects, or shakes hands.
struct Call {
  std::uint32_t rank = 0;
  TimePoint next_try{};
  Duration backoff = kBackoffMin;
  UniqueFd connecting = {};
  std::unique_ptr<Handshake> handshake = {};
  std::string last_failure = {};
};

class Mesh {
 public:
  explicit Mesh(const MeshOptions& options)
      : options_(options),
        connections_(options.endpoints.size()),
        self_(*rank_of(options.self.id.index)),
        rng_(options.self.job_tag) {
    for (std::uint32_t rank = 0; rank < self(); ++rank) calls_.push_back({.rank = rank});
  }

  Result<std::vector<std::unique_ptr<Connection>>> run(TimePoint deadline) {
    while (!is_complete()) {
      if (options_.stop_asked && options_.stop_asked()) {
        return Error{Errc::kInterrupted, "stopped while " + missing() + " had not come"};
      }
      if (now() >= deadline) {
        return Error{Errc::kUnreachable, missing() + " did not come before the deadline"};
      }
      drop_closed();
      for (Call& call : calls_) {
        if (connections_[call.rank] == nullptr) PADDLE_TRY_STATUS(advance(call));
      }
      accept_callers();
      advance_callers();
      if (!is_complete()) wait(deadline);
    }
    return std::move(connections_);
  }

 private:
  std::uint32_t self() const { return self_; }
  std::uint32_t id_of(std::uint32_t rank) const {
    return options_.ids.empty() ? rank : options_.ids[rank];
  }
  std::optional<std::uint32_t> rank_of(std::uint32_t id) const {
    for (std::uint32_t rank = 0; rank < connections_.size(); ++rank) {
      if (id_of(rank) == id) return rank;
    }
    return std::nullopt;
  }
  bool is_complete() const {
    for (std::uint32_t rank = 0; rank < connections_.size(); ++rank) {
      if (rank != self() && connections_[rank] == nullptr) return false;
    }
    return true;
  }

  // A rank that has ended while others had not come may come back.
  void drop_closed() {
    for (auto& connection : connections_) {
      if (connection != nullptr && connection->is_closed()) connection.reset();
    }
  }

  // "rank 1 (node b) [connect: Connection refused], rank 3 (node d)"
  std::string missing() const {
    std::string text;
    for (std::uint32_t rank = 0; rank < connections_.size(); ++rank) {
      if (rank == self() || connections_[rank] != nullptr) continue;
      text += fmt::format("{}{}", text.empty() ? "" : ", ", options_.names[rank]);
      if (rank < self() && !calls_[rank].last_failure.empty()) {
        text += fmt::format(" [{}]", calls_[rank].last_failure);
      }
    }
    return text;
  }

  Status advance(Call& call) {
    const auto outcome = try_call(call);
    if (outcome) return {};
    const Error& error = outcome.error();
    // The keys differ, or another job or program has the port: no later try changes that.
    if (error.code != Errc::kUnreachable) return Error(error).with(options_.names[call.rank]);
    call.last_failure = error.message;
    call.connecting.reset();
    call.handshake.reset();
    const auto half = static_cast<double>((call.backoff / 2).count());
    call.next_try =
        now() + call.backoff / 2 + Duration(static_cast<std::int64_t>(rng_.uniform() * half));
    call.backoff = std::min(2 * call.backoff, kBackoffMax);
    return {};
  }

  Status try_call(Call& call) {
    if (!call.connecting && call.handshake == nullptr) {
      if (now() < call.next_try) return {};
      PADDLE_TRY(call.connecting, open(options_.endpoints[call.rank]));
    }
    if (call.connecting) {
      pollfd item{call.connecting.get(), POLLOUT, 0};
      if (::poll(&item, 1, 0) <= 0) return {};
      int code = 0;
      socklen_t size = sizeof code;
      if (::getsockopt(item.fd, SOL_SOCKET, SO_ERROR, &code, &size) != 0) code = errno;
      if (code != 0) {
        errno = code;
        return system_error(Errc::kUnreachable, "connect");
      }
      if (is_self_connected(item.fd)) return Error{Errc::kUnreachable, "connect: nobody listens"};
      const NodeId server{options_.self.id.role, id_of(call.rank)};
      PADDLE_TRY(call.handshake,
                 Handshake::call(options_.self, server, std::move(call.connecting), now()));
    }
    PADDLE_TRY(const bool is_done, call.handshake->advance(now()));
    if (is_done) connections_[call.rank] = call.handshake->take();
    if (is_done) call.handshake.reset();
    return {};
  }

  static Result<UniqueFd> open(const Endpoint& at) {
    PADDLE_TRY(const asio::ip::tcp::endpoint endpoint, parse_endpoint(at));
    UniqueFd fd(
        ::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd) return system_error(Errc::kResource, "socket");
    PADDLE_TRY_STATUS(set_options(fd.get()));
    if (::connect(fd.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0 &&
        errno != EINPROGRESS) {
      return system_error(Errc::kUnreachable, "connect");
    }
    return fd;
  }

  void accept_callers() {
    for (std::size_t i = 0; i < kAcceptsPerLook; ++i) {
      UniqueFd socket(
          ::accept4(options_.listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!socket) return;
      if (!set_options(socket.get())) continue;
      auto handshake = Handshake::accept(options_.self, std::move(socket), now());
      if (!handshake) continue;
      if (callers_.size() == kUnprovenCallersMax) callers_.pop_front();
      callers_.push_back(*std::move(handshake));
    }
  }

  void advance_callers() {
    for (auto caller = callers_.begin(); caller != callers_.end();) {
      const auto is_done = (*caller)->advance(now());
      if (is_done && !*is_done) {
        ++caller;
        continue;
      }
      if (is_done) {
        admit((*caller)->take());
      } else if (is_done.error().code == Errc::kAuth) {
        log_refused(fmt::format("a caller of {} is turned away: {}", options_.names[self()],
                                is_done.error().message));
      }
      caller = callers_.erase(caller);
    }
  }

  // A later life takes the place of an earlier one, and a second call of one life that of the
  // first, which its caller has given up.
  void admit(std::unique_ptr<Connection> connection) {
    const Ends& ends = connection->ends();
    const auto rank = rank_of(ends.peer.index);
    if (ends.peer.role != options_.self.id.role || !rank || *rank <= self()) {
      log_refused(
          fmt::format("a caller is turned away: role {}, number {} is no rank that calls {}",
                      static_cast<int>(ends.peer.role), ends.peer.index, options_.names[self()]));
      return;
    }
    auto& place = connections_[*rank];
    if (place != nullptr && place->ends().peer_incarnation > ends.peer_incarnation) {
      log_refused(fmt::format("an earlier life of {} is turned away", options_.names[*rank]));
      return;
    }
    place = std::move(connection);
  }

  // Strangers may come as often as they like.
  void log_refused(const std::string& line) {
    if (now() - refusal_logged_ < kRefusalLogPeriod) {
      ++refusals_unlogged_;
      return;
    }
    log_warning("{} ({} more since the last line)", line, std::exchange(refusals_unlogged_, 0));
    refusal_logged_ = now();
  }

  void wait(TimePoint deadline) {
    std::vector<pollfd> items{{options_.listener.get(), POLLIN, 0}};
    TimePoint until = std::min(deadline, now() + kLook);
    const auto add = [&](const Handshake& one) {
      // A sealed handshake's writes wait for the peer's turn, not for room: a moment's pause.
      items.push_back({one.descriptor(), POLLIN, 0});
      if (one.is_writing())
        until = std::min<TimePoint>(until, now() + std::chrono::milliseconds(1));
    };
    for (const Call& call : calls_) {
      if (call.connecting) items.push_back({call.connecting.get(), POLLOUT, 0});
      if (call.handshake != nullptr) add(*call.handshake);
      if (connections_[call.rank] == nullptr && !call.connecting && call.handshake == nullptr) {
        until = std::min(until, call.next_try);
      }
    }
    for (const auto& caller : callers_) add(*caller);
    ::poll(items.data(), items.size(), milliseconds_until(until));
  }

  const MeshOptions& options_;
  std::vector<std::unique_ptr<Connection>> connections_;  // by rank
  std::uint32_t self_;
  std::vector<Call> calls_;                        // by rank
  std::list<std::unique_ptr<Handshake>> callers_;  // the oldest first
  Rng rng_;
  TimePoint refusal_logged_{};
  std::uint64_t refusals_unlogged_ = 0;
};

}  // namespace

Result<UniqueFd> listen(const Endpoint& at) {
  PADDLE_TRY(const asio::ip::tcp::endpoint endpoint, parse_endpoint(at));
  const auto failed = [&](const char* call) {
    const bool is_taken = errno == EADDRINUSE;
    Error error =
        system_error(Errc::kResource, fmt::format("{} {}", call, endpoint_text(endpoint)));
    if (is_taken) error.hint = "another process holds the port: see `ss -tlnp`";
    return error;
  };
  UniqueFd fd(
      ::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return failed("socket");
  const int yes = 1;
  if (::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0) {
    return failed("setsockopt");
  }
  if (::bind(fd.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0) {
    return failed("bind");
  }
  if (::listen(fd.get(), kBacklog) != 0) return failed("listen");
  return fd;
}

Result<std::uint16_t> port_of(const UniqueFd& listener) {
  asio::ip::tcp::endpoint bound;
  auto size = static_cast<socklen_t>(bound.capacity());
  if (::getsockname(listener.get(), bound.data(), &size) != 0) {
    return system_error(Errc::kResource, "getsockname");
  }
  return bound.port();
}

Result<std::vector<std::unique_ptr<Connection>>> connect_ranks(const MeshOptions& options,
                                                               TimePoint deadline) {
  PADDLE_CHECK(options.names.size() == options.endpoints.size() &&
               (options.ids.empty() ? options.self.id.index < options.endpoints.size()
                                    : options.ids.size() == options.endpoints.size() &&
                                          std::ranges::count(options.ids, options.self.id.index)));
  return Mesh(options).run(deadline);
}

}  // namespace paddle::net::peer
