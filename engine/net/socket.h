// The Stream interface that client and server use, its implementation over sockets, and the options
// that all sockets have.
#pragma once

#include <span>

#include <asio/ip/tcp.hpp>

#include "base/fd.h"
#include "engine/net/session.h"
#include "engine/net/tcp.h"

namespace paddle::net {

constexpr std::size_t kGatherPartsMax = 192;           // parts of one write
constexpr std::size_t kScatterPartsMax = 2;            // parts of one read
constexpr std::size_t kReadBufferBytes = 256U << 10U;  // per proven connection

// Time to poll for more before sleeping: a sleeping core takes about 50 us to wake.
constexpr Duration kSpin = std::chrono::microseconds(50);
// One short step of a spin, which yields the core to other threads.
void spin_once();

// A non-blocking byte stream: a socket, shared memory, or TLS around another one.
class Stream {
 public:
  enum class Direction { kRead, kWrite };
  virtual ~Stream() = default;
  // Both return the number of bytes read or written; 0 if they would block. kUnreachable: the
  // stream is closed or broken.
  virtual Result<std::size_t> read_some(std::span<std::byte> into) = 0;
  // read_some() into one part after the other. Only sockets fill more than the first part.
  virtual Result<std::size_t> read_parts(std::span<const std::span<std::byte>> parts) {
    return read_some(parts.front());
  }
  virtual Result<std::size_t> write_some(std::span<const ByteSpan> parts) = 0;
  // Blocks until a read or write can make progress. kUnreachable when the deadline passed.
  virtual Status wait(Direction direction, TimePoint deadline) = 0;
  // Whether a read would make progress although the descriptor is not readable.
  virtual bool has_read_ahead() const { return false; }
};

// Does not own fd, which must be a non-blocking socket.
std::unique_ptr<Stream> make_socket_stream(int fd);

// True if both ends have the same address, so the peer runs on this host.
bool is_same_host(int fd);
// True if is_same_host() or both addresses are loopback addresses: no byte leaves this host.
bool stays_on_host(int fd);

// TCP_NODELAY, TCP_USER_TIMEOUT, keepalive, on a connected or connecting socket.
Status set_socket_options(int fd);

// kUsage when the address is not an IP literal.
Result<asio::ip::tcp::endpoint> parse_endpoint(const Endpoint& endpoint);
std::string endpoint_text(
    const asio::ip::tcp::endpoint& endpoint);  // "10.0.0.1:7164", "[::1]:7164"

}  // namespace paddle::net
