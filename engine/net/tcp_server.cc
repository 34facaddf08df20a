#include <sys/eventfd.h>
#include <unistd.h>

#include <map>

#include <asio/io_context.hpp>
#include <asio/ip/v6_only.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <fmt/format.h>

#include "engine/base/log.h"
#include "engine/net/connection.h"
#include "engine/net/tcp.h"

namespace paddle::net {
namespace {

using asio::ip::tcp;

constexpr Duration kTick = std::chrono::milliseconds(100);
constexpr Duration kLinger = std::chrono::seconds(2);        // for the peer to close after we did
constexpr Duration kStopDeadline = std::chrono::seconds(1);  // for replies under way at stop()
constexpr Duration kRefusalLogPeriod = std::chrono::seconds(1);
constexpr std::size_t kWakeUpBytesMax = 16U
                                        << 20U;  // read from one peer before others have their turn
constexpr std::size_t kConnectionsMax = 4096;
constexpr int kListenBacklog = 512;

class TcpServerImpl final : public TcpServer {
 public:
  TcpServerImpl(ServerOptions&& options, FrameHandler& handler)
      : options_(std::move(options)),
        handler_(handler),
        acceptor_(io_),
        timer_(io_),
        stop_event_(io_) {}

  Status open();
  void run() override;
  // Only a write to an eventfd: safe in a signal handler.
  void stop() override {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t ignored = ::write(stop_fd_, &one, sizeof one);
  }
  std::uint16_t port() const override { return port_; }

 private:
  void accept();
  void add(tcp::socket&& socket);
  void evict_oldest_unproven();
  void tick();
  void on_stop();

  void arm_read(Connection& connection);
  void on_readable(PeerId id);
  void drain(Connection& connection);
  void on_bytes(Connection& connection);
  void on_frame(Connection& connection, Frame&& frame);
  void on_handshake(Connection& connection, const Frame& frame);

  void dispatch(std::vector<Outgoing>&& out);
  void enqueue(Connection& connection, Frame&& frame, ByteSpan view, bool close_after);
  void keep_views();
  void settle();
  void flush(Connection& connection);
  void doom(Connection& connection, std::string why);
  void remove(PeerId id);
  void log_refused(const Connection& connection, std::string_view why);

  ServerOptions options_;
  FrameHandler& handler_;
  SteadyClock clock_;
  asio::io_context io_{1};
  tcp::acceptor acceptor_;
  asio::steady_timer timer_;
  asio::posix::stream_descriptor stop_event_;
  int stop_fd_ = -1;  // owned by stop_event_
  std::uint16_t port_ = 0;
  bool accepting_ = false;
  bool stopping_ = false;
  TimePoint stop_deadline_{};
  PeerId next_id_ = 1;
  std::map<PeerId, std::unique_ptr<Connection>> connections_;  // in order of arrival
  std::size_t unproven_ = 0;
  std::vector<PeerId> viewing_;  // to whom views may still be waiting
  std::vector<PeerId> touched_;  // to flush or to remove at the end of this wake-up
  TimePoint refusal_logged_{};
  std::uint64_t refusals_unlogged_ = 0;
};

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
  const tcp::endpoint bound = acceptor_.local_endpoint(code);
  if (code) return failed("bind");
  port_ = bound.port();

  stop_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (stop_fd_ < 0) return system_error(Errc::kResource, "eventfd");
  if (stop_event_.assign(stop_fd_, code); code) {
    ::close(stop_fd_);
    return failed("eventfd");
  }
  return {};
}

void TcpServerImpl::run() {
  stop_event_.async_wait(asio::posix::descriptor_base::wait_read, [this](asio::error_code code) {
    if (!code) on_stop();
  });
  accept();
  timer_.expires_after(kTick);
  timer_.async_wait([this](asio::error_code code) {
    if (!code) tick();
  });
  io_.run();
}

void TcpServerImpl::accept() {
  accepting_ = true;
  acceptor_.async_accept([this](asio::error_code code, tcp::socket socket) {
    accepting_ = false;
    if (stopping_) return;
    if (code && code != asio::error::connection_aborted) {
      // Out of descriptors or memory: the next tick tries again instead of spinning.
      log_warning("accept on port {}: {}", port_, code.message());
      return;
    }
    if (!code) add(std::move(socket));
    settle();
    accept();
  });
}

void TcpServerImpl::add(tcp::socket&& socket) {
  asio::error_code code;
  const tcp::endpoint remote = socket.remote_endpoint(code);
  if (code) return;
  if (socket.non_blocking(true, code); code) return;
  if (!set_socket_options(socket.native_handle())) return;
  const auto nonce = random_nonce();
  if (!nonce || connections_.size() >= kConnectionsMax) {
    log_warning("connection from {} dropped: {}", endpoint_text(remote),
                nonce ? "too many connections" : nonce.error().message);
    return;
  }
  if (unproven_ >= kUnprovenConnectionsMax) evict_oldest_unproven();
  const PeerId id = next_id_++;
  ServerSession session({options_.secret, options_.self, options_.job_tag, options_.epoch}, *nonce,
                        clock_.now());
  auto connection = std::make_unique<Connection>(id, std::move(socket), std::move(session),
                                                 endpoint_text(remote));
  ++unproven_;
  arm_read(*connection);
  connections_.emplace(id, std::move(connection));
}

// An honest peer proves itself in a round trip, so the oldest one waiting is the least likely to.
void TcpServerImpl::evict_oldest_unproven() {
  for (const auto& [id, connection] : connections_) {
    if (connection->session.proven() || !connection->doomed.empty()) continue;
    log_refused(*connection, "too many peers in the handshake");
    remove(id);
    return;
  }
}

void TcpServerImpl::tick() {
  const TimePoint now = clock_.now();
  for (const auto& [id, connection] : connections_) {
    if (connection->half_closed) {
      if (now >= connection->linger_until) doom(*connection, "lingering");
    } else if (connection->session.expired(now)) {
      log_refused(*connection, "no proof within the deadline");
      doom(*connection, "handshake deadline passed");
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
  if (!stopping_ && !accepting_) accept();
  timer_.expires_after(kTick);
  timer_.async_wait([this](asio::error_code code) {
    if (!code) tick();
  });
}

void TcpServerImpl::on_stop() {
  asio::error_code ignored;
  stopping_ = true;
  stop_deadline_ = clock_.now() + kStopDeadline;
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

void TcpServerImpl::arm_read(Connection& connection) {
  connection.socket.async_wait(tcp::socket::wait_read,
                               [this, id = connection.id](asio::error_code code) {
                                 if (!code) on_readable(id);
                               });
}

void TcpServerImpl::on_readable(PeerId id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = *found->second;
  if (connection.close_when_flushed) {
    drain(connection);
  } else {
    on_bytes(connection);
  }
  if (connection.doomed.empty()) arm_read(connection);
  settle();
}

void TcpServerImpl::drain(Connection& connection) {
  std::array<std::byte, 4096> scrap;
  for (std::size_t total = 0; total < kWakeUpBytesMax;) {
    const auto count = connection.stream->read_some(scrap);
    if (!count) return doom(connection, "closed");
    if (*count == 0) return;
    total += *count;
  }
}

void TcpServerImpl::on_bytes(Connection& connection) {
  for (std::size_t total = 0; total < kWakeUpBytesMax;) {
    const auto count = connection.stream->read_some(connection.reader.space());
    if (!count) return doom(connection, count.error().message);
    if (*count == 0) return;
    total += *count;
    connection.reader.commit(*count);
    for (;;) {
      auto frame = connection.reader.next();
      if (!frame) {
        log_refused(connection, frame.error().message);
        return doom(connection, frame.error().message);
      }
      if (!*frame) break;
      on_frame(connection, std::move(**frame));
      if (!connection.doomed.empty() || connection.close_when_flushed) return;
    }
  }
}

void TcpServerImpl::on_frame(Connection& connection, Frame&& frame) {
  if (!connection.session.proven()) return on_handshake(connection, frame);
  if (const auto identity = connection.session.check(frame.header); !identity) {
    log_refused(connection, identity.error().message);
    return doom(connection, identity.error().message);
  }
  keep_views();
  std::vector<Outgoing> out;
  handler_.on_frame(clock_.now(), connection.id, std::move(frame), out);
  dispatch(std::move(out));
}

void TcpServerImpl::on_handshake(Connection& connection, const Frame& frame) {
  auto answer = connection.session.on_frame(clock_.now(), frame);
  if (!answer) {
    log_refused(connection, answer.error().message);
    return doom(connection, answer.error().message);
  }
  const bool refused = answer->header.type == kRefused;
  if (refused) log_refused(connection, "handshake refused");
  enqueue(connection, std::move(*answer), {}, refused);
  if (connection.session.proven()) {
    --unproven_;
    connection.reader.set_limits(kReadBufferBytes, kFramePayloadBytesMax);
  }
}

void TcpServerImpl::dispatch(std::vector<Outgoing>&& out) {
  for (Outgoing& outgoing : out) {
    const auto found = connections_.find(outgoing.to);
    if (found == connections_.end()) continue;
    outgoing.frame.header.job_tag = options_.job_tag;
    outgoing.frame.header.sender = options_.self;
    enqueue(*found->second, std::move(outgoing.frame), outgoing.view, outgoing.close_after);
  }
}

void TcpServerImpl::enqueue(Connection& connection, Frame&& frame, ByteSpan view,
                            bool close_after) {
  if (!connection.doomed.empty() || connection.close_when_flushed) return;
  if (!view.empty()) viewing_.push_back(connection.id);
  connection.writer.push(std::move(frame), view);
  connection.close_when_flushed = close_after;
  touched_.push_back(connection.id);
  if (connection.writer.queued_bytes() > kOutboundBytesMax) {
    log_warning("{} dropped: {} bytes wait for it, the limit is {}", connection.name,
                connection.writer.queued_bytes(), kOutboundBytesMax);
    doom(connection, "it does not read its replies");
  }
}

// Before any call of the handler, which may change what the views show. Most are written by then.
void TcpServerImpl::keep_views() {
  for (const PeerId id : viewing_) {
    const auto found = connections_.find(id);
    if (found != connections_.end()) found->second->writer.keep_views();
  }
  viewing_.clear();
}

// Ends a wake-up: one gathered write per touched connection, then removals, whose handler calls may
// touch others.
void TcpServerImpl::settle() {
  while (!touched_.empty()) {
    const std::vector<PeerId> touched = std::exchange(touched_, {});
    for (const PeerId id : touched) {
      const auto found = connections_.find(id);
      if (found == connections_.end()) continue;
      if (found->second->doomed.empty()) flush(*found->second);
      if (!found->second->doomed.empty()) remove(id);
    }
  }
  if (stopping_ && connections_.empty()) io_.stop();
}

void TcpServerImpl::flush(Connection& connection) {
  if (connection.wait_write || connection.half_closed) return;
  const auto flushed = connection.writer.flush(*connection.stream);
  if (!flushed) return doom(connection, flushed.error().message);
  if (!*flushed) {
    connection.wait_write = true;
    connection.socket.async_wait(tcp::socket::wait_write,
                                 [this, id = connection.id](asio::error_code code) {
                                   const auto found = connections_.find(id);
                                   if (code || found == connections_.end()) return;
                                   found->second->wait_write = false;
                                   touched_.push_back(id);
                                   settle();
                                 });
    return;
  }
  if (!connection.close_when_flushed) return;
  // Closing with unread bytes would reset the connection and could take the last reply with it.
  asio::error_code ignored;
  connection.socket.shutdown(tcp::socket::shutdown_send, ignored);
  connection.half_closed = true;
  connection.linger_until = clock_.now() + kLinger;
}

void TcpServerImpl::doom(Connection& connection, std::string why) {
  if (!connection.doomed.empty()) return;
  connection.doomed = std::move(why);
  touched_.push_back(connection.id);
}

void TcpServerImpl::remove(PeerId id) {
  const auto node = connections_.extract(id);
  if (!node.mapped()->session.proven()) {
    --unproven_;
    return;
  }
  if (stopping_) return;
  keep_views();
  std::vector<Outgoing> out;
  handler_.on_disconnect(clock_.now(), id, out);
  dispatch(std::move(out));
}

// At most a line a second, whatever is thrown at the port.
void TcpServerImpl::log_refused(const Connection& connection, std::string_view why) {
  const TimePoint now = clock_.now();
  if (now - refusal_logged_ < kRefusalLogPeriod) {
    ++refusals_unlogged_;
    return;
  }
  log_warning("port {}: {} refused: {} ({} more since the last line)", port_, connection.name, why,
              std::exchange(refusals_unlogged_, 0));
  refusal_logged_ = now;
}

}  // namespace

Result<std::unique_ptr<TcpServer>> TcpServer::listen(ServerOptions options, FrameHandler& handler) {
  auto server = std::make_unique<TcpServerImpl>(std::move(options), handler);
  PADDLE_TRY_STATUS(server->open());
  return std::unique_ptr<TcpServer>(std::move(server));
}

}  // namespace paddle::net
