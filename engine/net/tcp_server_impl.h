// A port's server: its connections and the thread that serves them. tcp_server.cc accepts and
// closes connections, tcp_server_traffic.cc moves their bytes.
#pragma once

#include <map>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include "engine/net/connection.h"
#include "engine/net/tcp.h"

namespace paddle::net {

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

 private:
  void accept();
  void add(asio::ip::tcp::socket&& socket);
  void evict_oldest_unproven();
  void tick();
  void on_stop();

  void arm_read(Connection& connection);
  void on_readable(PeerId id);
  void read(Connection& connection);
  void drain(Connection& connection);
  void on_bytes(Connection& connection);
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
  void remove(PeerId id);
  void log_refused(const Connection& connection, std::string_view why);

  ServerOptions options_;
  FrameHandler& handler_;
  SteadyClock clock_;
  asio::io_context io_{1};
  asio::ip::tcp::acceptor acceptor_;
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
  std::vector<Connection*> rings_;  // connections on shared memory
  TimePoint spin_until_{};
  std::vector<PeerId> viewing_;  // peers whose unwritten replies may hold views
  std::vector<PeerId> touched_;  // to flush or to remove at the end of this wake-up
  TimePoint refusal_logged_{};
  std::uint64_t refusals_unlogged_ = 0;
};

}  // namespace paddle::net
