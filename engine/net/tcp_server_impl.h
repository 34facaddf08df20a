// A port's server: its connections and the thread that serves them. tcp_server.cc accepts and
// closes connections, tcp_server_traffic.cc moves their bytes.
#pragma once

#include <map>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include "engine/net/acceptor.h"
#include "engine/net/frame_io.h"
#include "engine/net/ring_stream.h"

namespace paddle::net {

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
        source(source_of(remote.address())) {}

  PeerId id;
  asio::ip::tcp::socket socket;
  std::unique_ptr<Stream> stream;
  RingStream* ring = nullptr;  // the stream, once it is shared memory
  ServerSession session;
  FrameReader reader;
  FrameWriter writer;
  std::string name;  // "10.0.0.1:40312", for messages
  asio::ip::address source;

  bool has_spoken = false;                    // a frame has come after the handshake
  bool is_joined = false;                     // the handler has seen a frame and goes on
  TimePoint speaks_until = TimePoint::max();  // deadline of the first frame of a proven peer
  TimePoint frame_until = TimePoint::max();   // deadline of a frame that has begun
  bool wait_write = false;                    // a wait for writability is armed
  bool close_when_flushed = false;
  bool half_closed = false;  // our side is shut; incoming bytes are dropped
  TimePoint linger_until{};  // of a half-closed connection
  std::string doomed;        // reason to close it, at the end of the wake-up; "": none
};

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
  void stop() override;
  std::uint16_t port() const override { return port_; }
  void drop(NodeId client, std::uint32_t incarnation, std::string why) override;

 private:
  void add(int socket, const asio::ip::tcp::endpoint& remote);
  void evict_unproven();
  void on_decided(const Connection& connection);
  void end_surplus(const Connection& newest);
  void tick();
  void on_stop();

  void arm_read(Connection& connection);
  void on_readable(PeerId id);
  void read(Connection& connection);
  void drain(Connection& connection);
  void on_bytes(Connection& connection);
  void time_frame(Connection& connection) const;
  void on_frame(Connection& connection, Frame&& frame);
  void on_handshake(Connection& connection, const Frame& frame);
  void on_share(Connection& connection, const Frame& frame);

  void dispatch(std::vector<Outgoing>&& out);
  void enqueue(Connection& connection, Frame&& frame, ByteSpan view, bool close_after);
  void keep_views();
  void settle();
  bool serve_rings();  // false: all were idle
  bool prepare_sleep();
  void flush(Connection& connection);
  void doom(Connection& connection, std::string why);
  void end(Connection& connection, const Error& why);
  void refuse(Connection& connection, const std::string& why);
  void remove(PeerId id);
  void log_refused(std::string_view name, std::string_view why);

  ServerOptions options_;
  FrameHandler& handler_;
  SteadyClock clock_;
  asio::io_context io_{1};
  asio::ip::tcp::acceptor acceptor_;
  asio::steady_timer timer_;
  asio::posix::stream_descriptor stop_event_;
  int stop_fd_ = -1;  // owned by stop_event_
  std::uint16_t port_ = 0;
  bool stopping_ = false;
  Acceptor accept_thread_;
  TimePoint stop_deadline_{};
  PeerId next_id_ = 1;
  std::map<PeerId, std::unique_ptr<Connection>> connections_;  // in order of arrival
  std::size_t unproven_ = 0;
  std::map<asio::ip::address, std::size_t> unproven_by_source_;
  std::vector<Connection*> rings_;  // connections on shared memory
  TimePoint spin_until_{};
  std::vector<PeerId> viewing_;  // peers whose unwritten replies may hold views
  std::vector<PeerId> touched_;  // to flush or to remove at the end of this wake-up
  TimePoint refusal_logged_{};
  std::uint64_t refusals_unlogged_ = 0;
};

}  // namespace paddle::net
