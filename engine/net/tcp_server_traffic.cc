// Bytes, frames and replies of a port's connections.
#include <array>

#include <asio/post.hpp>

#include "base/log.h"
#include "engine/net/tcp_server_impl.h"

namespace paddle::net {

using asio::ip::tcp;

namespace {

// A trainer joins once it has reached all pservers.
constexpr Duration kFirstFrameWithin = std::chrono::minutes(5);
// The longest one takes a minute at 10 Mbit/s; a trainer that is stopped may go on.
constexpr Duration kFrameWithin = std::chrono::minutes(15);
constexpr Duration kLinger = std::chrono::seconds(2);  // time for the peer to close after us
// A Join carries the job's parameter set, of 4 MiB at most.
constexpr std::size_t kFirstFramePayloadBytesMax = kFrameHeadBytesMax + (4U << 20U);
// Read from one peer before the others have their turn.
constexpr std::size_t kWakeUpBytesMax = 16U << 20U;
// A longer queue is written at once, not at the end of the wake-up.
constexpr std::size_t kFlushAtOnceBytes = 64U << 10U;

}  // namespace

void TcpServerImpl::arm_read(Connection& connection) {
  if (connection.stream->has_read_ahead()) {
    asio::post(io_, [this, id = connection.id] { on_readable(id); });
    return;
  }
  connection.socket.async_wait(tcp::socket::wait_read,
                               [this, id = connection.id](asio::error_code code) {
                                 if (!code) on_readable(id);
                               });
}

void TcpServerImpl::on_readable(PeerId id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = *found->second;
  if (connection.ring != nullptr) connection.ring->wake();
  read(connection);
  // A proven trainer often sends another request soon.
  if (connection.session.proven()) spin_until_ = clock_.now() + kSpin;
  if (connection.doomed.empty()) arm_read(connection);
  settle();
}

void TcpServerImpl::read(Connection& connection) {
  if (connection.close_when_flushed) {
    drain(connection);
  } else {
    on_bytes(connection);
  }
}

// One round over the connections on shared memory; while we are awake, no event announces them.
bool TcpServerImpl::serve_rings() {
  bool is_busy = false;
  for (Connection* const connection : rings_) {
    if (!connection->doomed.empty()) continue;
    const bool has_output = !connection->writer.empty() && connection->ring->can_write();
    if (has_output) touched_.push_back(connection->id);
    const bool has_input = connection->ring->can_read();
    if (has_input) read(*connection);
    is_busy = is_busy || has_input || has_output;
  }
  if (is_busy) {
    spin_until_ = clock_.now() + kSpin;
    settle();
  }
  return is_busy;
}

bool TcpServerImpl::prepare_sleep() {
  bool may_sleep = true;
  for (Connection* const connection : rings_) {
    const std::uint32_t flags = kWantsData | (connection->writer.empty() ? 0U : kWantsRoom);
    may_sleep = connection->ring->prepare_sleep(flags) && may_sleep;
  }
  return may_sleep;
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
    if (!count) return end(connection, count.error());
    if (*count == 0) return;
    total += *count;
    connection.reader.commit(*count);
    for (;;) {
      auto frame = connection.reader.next();
      if (!frame) return refuse(connection, frame.error().message);
      if (!*frame) {
        time_frame(connection);
        break;
      }
      connection.frame_until = TimePoint::max();
      on_frame(connection, std::move(**frame));
      if (connection.doomed.empty() && connection.writer.queued_bytes() >= kFlushAtOnceBytes) {
        flush(connection);
      }
      if (!connection.doomed.empty() || connection.close_when_flushed) return;
    }
  }
}

void TcpServerImpl::time_frame(Connection& connection) const {
  if (connection.reader.is_idle()) {
    connection.frame_until = TimePoint::max();
  } else if (connection.frame_until == TimePoint::max()) {
    connection.frame_until = clock_.now() + kFrameWithin;
  }
}

void TcpServerImpl::on_frame(Connection& connection, Frame&& frame) {
  if (!connection.session.proven()) return on_handshake(connection, frame);
  if (const auto identity = connection.session.check(frame.header); !identity) {
    return refuse(connection, identity.error().message);
  }
  if (frame.header.type == kShare) return on_share(connection, frame);
  connection.has_spoken = true;
  connection.speaks_until = TimePoint::max();
  keep_views();
  std::vector<Outgoing> out;
  handler_.on_frame(clock_.now(), connection.id, std::move(frame), out);
  dispatch(std::move(out));
  if (!connection.is_joined && !connection.close_when_flushed) {
    connection.is_joined = true;
    connection.reader.set_limits(kReadBufferBytes, kFramePayloadBytesMax);
  }
}

void TcpServerImpl::end(Connection& connection, const Error& why) {
  if (why.code == Errc::kAuth) log_refused(connection.name, why.message);
  doom(connection, why.message);
}

void TcpServerImpl::refuse(Connection& connection, const std::string& why) {
  log_refused(connection.name, why);
  doom(connection, why);
}

void TcpServerImpl::on_handshake(Connection& connection, const Frame& frame) {
  auto answer = connection.session.on_frame(clock_.now(), frame);
  if (!answer) return refuse(connection, answer.error().message);
  const bool refused = answer->header.type == kRefused;
  if (refused) log_refused(connection.name, "handshake refused");
  enqueue(connection, std::move(*answer), {}, refused);
  if (connection.session.proven()) {
    on_decided(connection);
    connection.speaks_until = clock_.now() + kFirstFrameWithin;
    connection.reader.set_limits(kReadBufferBytes, kFirstFramePayloadBytesMax);
    end_surplus(connection);
  }
}

// Accepts shared memory, offered by the first frame of a peer on this host. The answer still goes
// through the socket, all later frames through the memory.
void TcpServerImpl::on_share(Connection& connection, const Frame& frame) {
  if (connection.has_spoken || connection.ring != nullptr || !connection.reader.is_idle()) {
    return refuse(connection, "shared memory at the wrong time");
  }
  connection.has_spoken = true;
  connection.speaks_until = clock_.now() + kFirstFrameWithin;
  const int socket = connection.socket.native_handle();
  auto segment = is_same_host(socket) && !is_sealed(options_.transport, socket)
                     ? SharedSegment::open(frame.tail)
                     : Error{Errc::kAuth, "another host"};
  Frame answer = connection.session.reply(kShared);
  answer.tail.push_back(std::byte{segment ? std::uint8_t{1} : std::uint8_t{0}});
  enqueue(connection, std::move(answer), {}, false);
  if (!segment) return;
  flush(connection);
  if (!connection.writer.empty()) return doom(connection, "it does not read its replies");
  auto ring = std::make_unique<RingStream>(*std::move(segment), Side::kServer, socket);
  connection.ring = ring.get();
  connection.stream = std::move(ring);
  rings_.push_back(&connection);
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

// Called before the handler, which may change viewed memory. Most views are written by then.
void TcpServerImpl::keep_views() {
  for (const PeerId id : viewing_) {
    const auto found = connections_.find(id);
    if (found != connections_.end()) found->second->writer.keep_views();
  }
  viewing_.clear();
}

// Ends a wake-up: one gathered write per touched connection, then removals. Their handler calls may
// touch more connections.
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
    if (connection.ring != nullptr) return;  // serve_rings() continues when there is room
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

}  // namespace paddle::net
