// TCP on Asio: one server per port (one thread, one event loop), one link per client. Every
// connection proves its pair's key both ways (session.h) before any other frame is parsed.
#pragma once

#include "engine/net/link.h"
#include "engine/net/transport.h"
#include "proto/keys.h"

namespace paddle::net {

struct Endpoint {
  std::string address;  // IPv4 or IPv6 literal; the launcher resolves names
  std::uint16_t port = 0;
};

struct ServerOptions {
  Endpoint endpoint;
  JobKeys keys;
  NodeId self;
  std::uint64_t job_tag = 0;
  std::uint64_t server_generation = 0;  // 1 higher at each start of this server
  Transport transport = Transport::kSealed;
  const Clock* clock = nullptr;  // null: steady time; a test may have its own
};

class TcpServer {
 public:
  // kResource: the port is taken; the message has address and port.
  static Result<std::unique_ptr<TcpServer>> listen(ServerOptions options, FrameHandler& handler);
  virtual ~TcpServer() = default;
  // Serves on the calling thread until stop(), which may be called from any thread or signal-safe
  // context.
  virtual void run() = 0;
  virtual void stop() = 0;
  virtual std::uint16_t port() const = 0;  // the bound port, for port 0
  // Closes the connections of this incarnation of a client. Any thread may call it.
  virtual void drop(NodeId client, std::uint32_t incarnation, std::string why) = 0;
};

struct ClientOptions {
  Endpoint endpoint;
  JobKeys keys;
  NodeId self;
  std::uint32_t incarnation = 0;
  NodeId server;
  std::uint64_t job_tag = 0;
  Transport transport = Transport::kSealed;
  bool shares_memory = true;  // uses shared memory instead of TCP if the server is on this host
  // Whether connect() must end before its deadline; asked between two attempts. Empty: never.
  std::function<bool()> gives_up = {};
};

// Connects (retrying refused connections with backoff until the deadline) and proves the key
// both ways.
Result<std::unique_ptr<Link>> connect(const ClientOptions& options, TimePoint deadline);

}  // namespace paddle::net
