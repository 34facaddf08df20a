// The server of one port: its connections and the event loop that serves them.
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <deque>
#include <map>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/ip/v6_only.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <fmt/format.h>

#include "base/log.h"
#include "engine/net/acceptor.h"
#include "engine/net/frame_io.h"
#include "engine/net/ring_stream.h"
#include "engine/net/tcp.h"
#include "engine/net/tls_stream.h"

namespace paddle::net {

using asio::ip::tcp;

namespace {

constexpr Duration kTimerTick = std::chrono::milliseconds(100);
constexpr Duration kStopDeadline = std::chrono::seconds(1);  // to send pending replies after stop()
constexpr Duration kRefusalLogPeriod = std::chrono::seconds(1);
// Two for each of 4,096 trainers, those of readers, and 256 unproven ones.
constexpr std::size_t kConnectionsMax = 8192 + kReadersMax + kUnprovenConnectionsMax;
constexpr std::size_t kConnectionsPerPeerMax = 2;
constexpr int kListenBacklog = 512;
constexpr unsigned kTurnsPerPoll = 16;  // polls of shared memory for each poll of the sockets

// While trainers use the port, readers have a tenth of its time: after some work for a reader, all
// readers wait for kReaderRest times as long. Trainers use it until they are silent for
// kTrainersIdle.
constexpr int kReaderRest = 9;
constexpr Duration kTrainersIdle = std::chrono::milliseconds(100);

// Time for a trainer to send its first frame: it joins only after it has connected to all pservers.
constexpr Duration kFirstFrameWithin = std::chrono::minutes(5);
// Time for one frame. The longest takes a minute at 10 Mbit/s; the rest allows for a trainer that
// is stopped (SIGSTOP) and continues later.
constexpr Duration kFrameWithin = std::chrono::minutes(15);
constexpr Duration kLinger = std::chrono::seconds(2);  // time for the peer to close after this side
// A Join carries the job's parameter set, of 4 MiB at most.
constexpr std::size_t kFirstFramePayloadBytesMax = kFrameHeadBytesMax + (4U << 20U);
// The most bytes read from one peer before the other peers are served.
constexpr std::size_t kWakeUpBytesMax = 16U << 20U;
// A queue of at least this size is written at once, not at the end of the wake-up.
constexpr std::size_t kFlushAtOnceBytes = 64U << 10U;
constexpr std::size_t kOutboundBytesMax = 256U << 20U;  // per connection

// One accepted connection: its socket, its session, and the frames in flight both ways.
struct Connection {
  Connection(PeerId peer_id, asio::ip::tcp::socket&& accepted, std::unique_ptr<Stream> bytes,
             ServerSession&& fresh, const asio::ip::tcp::endpoint& remote)
      : id(peer_id),
        socket(std::move(accepted)),
        stream(std::move(bytes)),
        session(std::move(fresh)),
        reader(kUnprovenBufferBytes, kUnprovenPayloadBytesMax),
        name(endpoint_text(remote)),
        source(source_of(remote.data())) {}

  PeerId id;
  asio::ip::tcp::socket socket;
  std::unique_ptr<Stream> stream;
  RingStream* ring = nullptr;  // stream if it is shared memory, else null
  ServerSession session;
  FrameReader reader;
  FrameWriter writer;
  std::string name;  // "10.0.0.1:40312", for messages
  CallerSource source;

  bool is_reader() const {
    return session.proven() && session.transcript().client.role == Role::kReader;
  }

  bool is_queued = false;                     // a reader that waits in readers_ for its turn
  bool has_spoken = false;                    // a frame has arrived after the handshake
  bool is_joined = false;                     // the handler has accepted its first frame
  TimePoint speaks_until = TimePoint::max();  // deadline of the first frame of a proven peer
  TimePoint frame_until = TimePoint::max();   // deadline of a frame that has begun
  bool wait_write = false;                    // a wait for writability is armed
  bool cannot_write = false;                  // a write has failed
  bool close_when_flushed = false;
  bool half_closed = false;  // our side is shut; incoming bytes are dropped
  TimePoint linger_until{};  // deadline of a half-closed connection
  std::string doomed;        // why it is closed at the end of the wake-up; "": it stays
};

class TcpServerImpl final : public TcpServer {
 public:
  TcpServerImpl(ServerOptions&& options, FrameHandler& handler)
      : options_(std::move(options)),
        handler_(handler),
        clock_(options_.clock != nullptr ? *options_.clock : steady_clock_),
        acceptor_(io_),
        timer_(io_),
        reader_timer_(io_),
        stop_event_(io_) {}

  Status open();
  void run() override;
  // Only writes to an eventfd: safe in a signal handler.
  void stop() override;
  std::uint16_t port() const override { return port_; }
  void drop(NodeId client, std::uint32_t incarnation, std::string why) override;

 private:
  void add(int fd, const asio::ip::tcp::endpoint& remote);
  void evict_unproven();
  void on_decided(const Connection& connection);
  bool has_surplus_readers() const;
  void end_surplus(Connection& newest);
  void tick();
  void on_stop();

  void arm_read(Connection& connection);
  void on_readable(PeerId id);
  void read(Connection& connection);
  void take_frames(Connection& connection);
  void drain(Connection& connection);
  void time_frame(Connection& connection) const;
  void on_frame(Connection& connection, Frame&& frame);
  void on_handshake(Connection& connection, const Frame& frame);
  void on_share(Connection& connection, const Frame& frame);

  void dispatch(std::vector<Outgoing>&& out);
  void enqueue(Connection& connection, Frame&& frame, ByteSpan view, bool close_after);
  void keep_views();
  void settle();
  bool serve_rings();  // false if all were idle
  void queue_reader(Connection& connection);
  bool may_serve_reader() const { return !readers_.empty() && clock_.now() >= readers_from_; }
  void serve_reader();
  void charge_readers(TimePoint begun);
  bool prepare_sleep();
  void flush(Connection& connection);
  void doom(Connection& connection, std::string why);
  void end(Connection& connection, const Error& why);
  void refuse(Connection& connection, const std::string& why);
  void remove(PeerId id);
  void log_refused(std::string_view name, std::string_view why);

  ServerOptions options_;
  FrameHandler& handler_;
  const SteadyClock steady_clock_;
  const Clock& clock_;
  asio::io_context io_{1};
  asio::ip::tcp::acceptor acceptor_;
  asio::steady_timer timer_;
  asio::steady_timer reader_timer_;  // wakes this thread when readers may be served again
  asio::posix::stream_descriptor stop_event_;
  int stop_fd_ = -1;  // owned by stop_event_
  std::uint16_t port_ = 0;
  bool stopping_ = false;
  Acceptor accept_thread_;
  TimePoint stop_deadline_{};
  PeerId next_id_ = 1;
  std::map<PeerId, std::unique_ptr<Connection>> connections_;  // in order of arrival
  std::size_t unproven_ = 0;
  std::map<CallerSource, std::size_t> unproven_by_source_;
  std::vector<Connection*> rings_;  // connections on shared memory
  // Connections of readers that may have a request, in the order in which they are served.
  std::deque<PeerId> readers_;
  TimePoint readers_from_{};  // no reader is served before
  TimePoint trainer_seen_{};  // when the last frame of a trainer arrived
  TimePoint spin_until_{};
  std::vector<PeerId> viewing_;  // peers whose unwritten replies may have views
  std::vector<PeerId> touched_;  // to flush or to remove at the end of this wake-up
  TimePoint refusal_logged_{};
  std::uint64_t refusals_unlogged_ = 0;
};

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
    if (may_serve_reader()) {
      io_.poll();
      if (may_serve_reader()) serve_reader();
    } else if (!rings_.empty() && turn % kTurnsPerPoll == 0) {
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

void TcpServerImpl::stop() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t ignored = ::write(stop_fd_, &one, sizeof one);
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

// Adding and removing connections.

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

// Removes the oldest unproven connection of the source that has most of them. An honest peer proves
// itself within a round trip, so this one is least likely to be honest.
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

// Readers have a limit for all of them together: several may use one key.
bool TcpServerImpl::has_surplus_readers() const {
  const auto readers = std::ranges::count_if(
      connections_, [](const auto& entry) { return entry.second->is_reader(); });
  return static_cast<std::size_t>(readers) > kReadersMax;
}

// Limits the connections of one trainer: it needs one, and a second while it reconnects after a
// loss. Without the limit, a process with the trainer's key could use up all connections and
// memory.
void TcpServerImpl::end_surplus(Connection& newest) {
  if (newest.is_reader()) return;
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
      refuse(*connection, connection->has_spoken ? "its frame is incomplete" : "it has not joined");
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

// Frames from clients.

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
  // A proven trainer often sends its next request soon.
  if (connection.session.proven() && !connection.is_reader()) spin_until_ = clock_.now() + kSpin;
  if (connection.doomed.empty() && !connection.is_queued) arm_read(connection);
  settle();
}

void TcpServerImpl::read(Connection& connection) {
  if (connection.close_when_flushed) return drain(connection);
  for (std::size_t total = 0; total < kWakeUpBytesMax;) {
    const auto count = connection.stream->read_some(connection.reader.space());
    if (!count) return end(connection, count.error());
    if (*count == 0) return;
    total += *count;
    connection.reader.commit(*count);
    take_frames(connection);
    if (!connection.doomed.empty() || connection.close_when_flushed) return;
    if (connection.is_queued) return;
  }
}

// Handles the whole frames among the bytes that were read.
void TcpServerImpl::take_frames(Connection& connection) {
  while (connection.doomed.empty() && !connection.close_when_flushed) {
    if (connection.is_reader()) return queue_reader(connection);
    auto frame = connection.reader.next();
    if (!frame) return refuse(connection, frame.error().message);
    if (!*frame) return time_frame(connection);
    connection.frame_until = TimePoint::max();
    on_frame(connection, std::move(**frame));
    if (connection.doomed.empty() && connection.writer.queued_bytes() >= kFlushAtOnceBytes)
      flush(connection);
  }
}

// Requests of readers. A turn of run() serves one of them, after all requests of trainers that have
// arrived. So readers that send without end delay a trainer by one request at most, and not often.
//
// INVARIANT: a reader's connection waits for one thing at a time: for bytes (arm_read), for its
// turn (is_queued), or until its answer is written. So a reader cannot pile up answers here.

void TcpServerImpl::queue_reader(Connection& connection) {
  if (std::exchange(connection.is_queued, true)) return;
  readers_.push_back(connection.id);
}

void TcpServerImpl::serve_reader() {
  const PeerId id = readers_.front();
  readers_.pop_front();
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = *found->second;
  connection.is_queued = false;
  // flush() queues it again once its answer is written.
  if (!connection.doomed.empty() || !connection.writer.empty()) return;
  auto frame = connection.reader.next();
  if (!frame) {
    refuse(connection, frame.error().message);
  } else if (!*frame) {
    time_frame(connection);
    arm_read(connection);
  } else {
    const TimePoint begun = clock_.now();
    connection.frame_until = TimePoint::max();
    on_frame(connection, std::move(**frame));
    charge_readers(begun);
    if (connection.doomed.empty() && connection.writer.empty()) queue_reader(connection);
  }
  settle();
}

// Lets readers rest for the work since `begun`.
void TcpServerImpl::charge_readers(TimePoint begun) {
  const TimePoint now = clock_.now();
  if (now - trainer_seen_ >= kTrainersIdle) return;
  readers_from_ = std::max(now, readers_from_) + kReaderRest * (now - begun);
  reader_timer_.expires_at(readers_from_);
  reader_timer_.async_wait([](asio::error_code) {});
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
  const TimePoint now = clock_.now();
  if (!connection.is_reader()) trainer_seen_ = now;
  keep_views();
  std::vector<Outgoing> out;
  handler_.on_frame(now, connection.id, std::move(frame), out);
  dispatch(std::move(out));
  if (!connection.is_joined && !connection.close_when_flushed && !connection.is_reader()) {
    connection.is_joined = true;
    connection.reader.set_limits(kReadBufferBytes, kFramePayloadBytesMax);
  }
}

void TcpServerImpl::on_handshake(Connection& connection, const Frame& frame) {
  auto answer = connection.session.on_frame(clock_.now(), frame);
  if (!answer) return refuse(connection, answer.error().message);
  // It counts as unproven from here on, so it cannot take a place from the others.
  if (connection.is_reader() && has_surplus_readers()) {
    *answer = connection.session.refuse(Refusal::kManyReaders);
  }
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

// Answers an offer of shared memory, the first frame of a peer on this host. The answer is still
// sent on the socket, all later frames through the memory.
void TcpServerImpl::on_share(Connection& connection, const Frame& frame) {
  if (connection.has_spoken || connection.ring != nullptr || !connection.reader.is_idle()) {
    return refuse(connection, "shared memory at the wrong time");
  }
  connection.has_spoken = true;
  connection.speaks_until = clock_.now() + kFirstFrameWithin;
  const int socket = connection.socket.native_handle();
  const bool may_share =
      is_same_host(socket) && !is_sealed(options_.transport, socket) && !connection.is_reader();
  auto segment = may_share ? SharedSegment::open(frame.tail) : Error{Errc::kAuth, "another host"};
  Frame answer = connection.session.frame_of(kShared);
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

// Frames to clients.

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
    log_warning("{} dropped: {} bytes are queued for it; the limit is {}", connection.name,
                connection.writer.queued_bytes(), kOutboundBytesMax);
    doom(connection, "it does not read its replies");
  }
}

// Copies the unwritten views; called before the handler, which may change viewed memory. Most views
// are written by then.
void TcpServerImpl::keep_views() {
  for (const PeerId id : viewing_) {
    const auto found = connections_.find(id);
    if (found != connections_.end()) found->second->writer.keep_views();
  }
  viewing_.clear();
}

// Ends a wake-up: one gathered write for each touched connection, then removals. The handler calls
// of a removal may touch more connections.
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

// Serves each connection on shared memory once. While this thread is awake, no event announces
// their bytes.
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

void TcpServerImpl::flush(Connection& connection) {
  if (connection.wait_write || connection.half_closed || connection.cannot_write) return;
  const TimePoint begun = clock_.now();
  const auto flushed = connection.writer.flush(*connection.stream);
  if (connection.is_reader()) charge_readers(begun);
  if (!flushed) {
    // The peer has closed. It may have sent frames before, and its last one may say why it ends.
    connection.cannot_write = true;
    if (!connection.is_reader()) {
      take_frames(connection);
      if (connection.doomed.empty()) read(connection);
    }
    return doom(connection, flushed.error().message);
  }
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
  if (!connection.close_when_flushed) {
    if (connection.is_reader()) queue_reader(connection);
    return;
  }
  if (connection.is_reader()) arm_read(connection);
  // Closes only the sending side: a close with unread bytes would reset the connection, and the
  // peer could lose the last reply.
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

void TcpServerImpl::end(Connection& connection, const Error& why) {
  if (why.code == Errc::kAuth) log_refused(connection.name, why.message);
  doom(connection, why.message);
}

void TcpServerImpl::refuse(Connection& connection, const std::string& why) {
  log_refused(connection.name, why);
  doom(connection, why);
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
