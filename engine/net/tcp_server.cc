#include <sys/eventfd.h>
#include <unistd.h>

#include <asio/ip/v6_only.hpp>
#include <asio/post.hpp>
#include <fmt/format.h>

#include "base/log.h"
#include "engine/net/tcp_server_impl.h"
#include "engine/net/tls_stream.h"

namespace paddle::net {

using asio::ip::tcp;

namespace {

constexpr Duration kTimerTick = std::chrono::milliseconds(100);
constexpr Duration kStopDeadline = std::chrono::seconds(1);  // to send pending replies after stop()
constexpr Duration kRefusalLogPeriod = std::chrono::seconds(1);
constexpr std::size_t kConnectionsMax = 8448;  // two of each of 4,096 trainers, and the unproven
constexpr std::size_t kConnectionsPerPeerMax = 2;
constexpr int kListenBacklog = 512;
constexpr unsigned kTurnsPerPoll = 16;  // polls of shared memory for each poll of the sockets

}  // namespace

Status TcpServerImpl::open() {
  PADDLE_TRY(const tcp::endpoint endpoint, parse_endpoint(options_.endpoint));
  asio::error_code code;
  const auto failed = [&](const char* call) {
    return Error{Errc::kResource,
                 fmt::format("{} {}: {}", call, endpoint_text(endpoint), code.message()),
                 code == asio::error::address_in_use
                     ? "another process holds the port: choose another --port, or see `ss -tlnp`"
                     : ""};
  };
  if (acceptor_.open(endpoint.protocol(), code); code) return failed("socket");
  if (acceptor_.set_option(tcp::acceptor::reuse_address(true), code); code) return failed("bind");
  if (endpoint.address().is_v6()) {
    if (acceptor_.set_option(asio::ip::v6_only(true), code); code) return failed("bind");
  }
  if (acceptor_.bind(endpoint, code); code) return failed("bind");
  if (acceptor_.listen(kListenBacklog, code); code) return failed("listen");
  if (acceptor_.native_non_blocking(true, code); code) return failed("listen");
  const tcp::endpoint bound = acceptor_.local_endpoint(code);
  if (code) return failed("bind");
  port_ = bound.port();

  PADDLE_TRY_STATUS(accept_thread_.open());
  stop_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (stop_fd_ < 0) return system_error(Errc::kResource, "eventfd");
  if (stop_event_.assign(stop_fd_, code); code) {
    ::close(stop_fd_);
    return failed("eventfd");
  }
  return {};
}

// Only a write to an eventfd: safe in a signal handler.
void TcpServerImpl::stop() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t ignored = ::write(stop_fd_, &one, sizeof one);
}

void TcpServerImpl::run() {
  stop_event_.async_wait(asio::posix::descriptor_base::wait_read, [this](asio::error_code code) {
    if (!code) on_stop();
  });
  accept_thread_.start(acceptor_.native_handle(), [this](UniqueFd socket, const auto& remote) {
    asio::post(io_, [this, fd = std::make_shared<UniqueFd>(std::move(socket)), remote] {
      accept_thread_.taken();
      if (!stopping_) add(fd->release(), remote);
      settle();
    });
  });
  timer_.expires_after(kTimerTick);
  timer_.async_wait([this](asio::error_code code) {
    if (!code) tick();
  });
  for (unsigned turn = 1; !io_.stopped(); ++turn) {
    const bool is_busy = serve_rings();
    if (!rings_.empty() && turn % kTurnsPerPoll == 0) {
      io_.poll();
    } else if (is_busy) {
      continue;
    } else if (clock_.now() < spin_until_) {
      if (rings_.empty()) io_.poll();
      spin_once();
    } else {
      if (prepare_sleep()) io_.run_one();
      for (Connection* const connection : rings_) connection->ring->stay_awake();
    }
  }
}

void TcpServerImpl::add(int fd, const tcp::endpoint& remote) {
  asio::error_code code;
  tcp::socket socket(io_, remote.protocol(), fd);
  if (socket.non_blocking(true, code); code) return;
  if (!set_socket_options(fd)) return;
  const auto nonce = random_nonce();
  if (!nonce || connections_.size() >= kConnectionsMax) {
    log_refused(endpoint_text(remote), nonce ? "too many connections" : nonce.error().message);
    return;
  }
  if (unproven_ >= kUnprovenConnectionsMax) evict_unproven();
  const PeerId id = next_id_++;
  ServerSession session(
      {options_.keys, options_.self, options_.job_tag, options_.server_generation}, *nonce,
      clock_.now());
  auto stream = make_socket_stream(fd);
  if (is_sealed(options_.transport, fd)) {
    stream = make_tls_server(std::move(stream), options_.self, options_.job_tag, options_.keys);
  }
  auto connection = std::make_unique<Connection>(id, std::move(socket), std::move(stream),
                                                 std::move(session), remote);
  ++unproven_;
  ++unproven_by_source_[connection->source];
  arm_read(*connection);
  connections_.emplace(id, std::move(connection));
}

// An honest peer proves itself within a round trip, so the oldest of the source that has most is
// the least likely to.
void TcpServerImpl::evict_unproven() {
  std::size_t most = 0;
  for (const auto& [source, count] : unproven_by_source_) most = std::max(most, count);
  for (const auto& [id, connection] : connections_) {
    if (connection->session.proven() || !connection->doomed.empty()) continue;
    if (unproven_by_source_.at(connection->source) < most) continue;
    log_refused(connection->name, "too many peers in the handshake");
    remove(id);
    return;
  }
}

void TcpServerImpl::on_decided(const Connection& connection) {
  --unproven_;
  const auto count = unproven_by_source_.find(connection.source);
  if (--count->second == 0) unproven_by_source_.erase(count);
}

// A trainer has one connection, and a second while it comes back after a loss. With its key
// somebody could take up all places and memory.
void TcpServerImpl::end_surplus(const Connection& newest) {
  std::size_t count = 0;
  Connection* surplus = nullptr;
  for (const auto& [id, one] : connections_) {
    const bool is_ending = !one->doomed.empty() || one->close_when_flushed;
    if (is_ending || !one->session.proven()) continue;
    if (one->session.transcript().client != newest.session.transcript().client) continue;
    ++count;
    if (one.get() == &newest) continue;
    if (surplus == nullptr || (surplus->is_joined && !one->is_joined)) surplus = one.get();
  }
  if (count > kConnectionsPerPeerMax) refuse(*surplus, "its trainer has connected again");
}

void TcpServerImpl::tick() {
  const TimePoint now = clock_.now();
  for (const auto& [id, connection] : connections_) {
    if (connection->half_closed) {
      if (now >= connection->linger_until) doom(*connection, "lingering");
    } else if (connection->session.expired(now)) {
      log_refused(connection->name, "no proof within the deadline");
      doom(*connection, "handshake deadline passed");
    } else if (now >= connection->speaks_until || now >= connection->frame_until) {
      refuse(*connection, connection->has_spoken ? "its frame does not end" : "it does not join");
    }
  }
  if (!stopping_) {
    keep_views();
    std::vector<Outgoing> out;
    handler_.on_tick(now, out);
    dispatch(std::move(out));
  }
  settle();
  if (stopping_ && now >= stop_deadline_) io_.stop();
  timer_.expires_after(kTimerTick);
  timer_.async_wait([this](asio::error_code code) {
    if (!code) tick();
  });
}

void TcpServerImpl::on_stop() {
  asio::error_code ignored;
  stopping_ = true;
  stop_deadline_ = clock_.now() + kStopDeadline;
  accept_thread_.stop();
  acceptor_.close(ignored);
  for (const auto& [id, connection] : connections_) {
    if (connection->writer.empty()) {
      doom(*connection, "stopping");
    } else {
      connection->close_when_flushed = true;
    }
  }
  settle();
}

void TcpServerImpl::drop(NodeId client, std::uint32_t incarnation, std::string why) {
  asio::post(io_, [this, client, incarnation, reason = std::move(why)] {
    for (const auto& [id, connection] : connections_) {
      const ServerSession& session = connection->session;
      if (!session.proven() || session.transcript().client != client ||
          session.transcript().incarnation != incarnation) {
        continue;
      }
      log_warning("port {}: {} is dropped: {}", port_, connection->name, reason);
      doom(*connection, reason);
    }
    settle();
  });
}

void TcpServerImpl::doom(Connection& connection, std::string why) {
  if (!connection.doomed.empty()) return;
  connection.doomed = std::move(why);
  touched_.push_back(connection.id);
}

void TcpServerImpl::remove(PeerId id) {
  const auto node = connections_.extract(id);
  std::erase(rings_, node.mapped().get());
  if (!node.mapped()->session.proven()) {
    on_decided(*node.mapped());
    return;
  }
  if (stopping_) return;
  keep_views();
  std::vector<Outgoing> out;
  handler_.on_disconnect(clock_.now(), id, out);
  dispatch(std::move(out));
}

// At most one line a second, however many connections fail.
void TcpServerImpl::log_refused(std::string_view name, std::string_view why) {
  const TimePoint now = clock_.now();
  if (now - refusal_logged_ < kRefusalLogPeriod) {
    ++refusals_unlogged_;
    return;
  }
  log_warning("port {}: {} refused: {} ({} more since the last line)", port_, name, why,
              std::exchange(refusals_unlogged_, 0));
  refusal_logged_ = now;
}

Result<std::unique_ptr<TcpServer>> TcpServer::listen(ServerOptions options, FrameHandler& handler) {
  auto server = std::make_unique<TcpServerImpl>(std::move(options), handler);
  PADDLE_TRY_STATUS(server->open());
  return std::unique_ptr<TcpServer>(std::move(server));
}

}  // namespace paddle::net
