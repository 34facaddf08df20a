// Where bytes meet the kernel: sockets with our options, behind the one Stream both sides use.
#pragma once

#include <memory>
#include <span>
#include <string>

#include <asio/ip/tcp.hpp>

#include "base/clock.h"
#include "base/fd.h"
#include "engine/net/session.h"
#include "engine/net/tcp.h"

namespace paddle::net {

constexpr std::size_t kGatherPartsMax = 192;           // of one write
constexpr std::size_t kReadBufferBytes = 256U << 10U;  // per proven connection

// How long a side looks for more before it sleeps: a sleeping core takes some 50 us to wake.
constexpr Duration kSpin = std::chrono::microseconds(50);
// One short step of a spin, which lets others have the core.
void spin_once();

// A non-blocking byte stream. Sealing (TLS 1.3 PSK) is another implementation that wraps one;
// nothing else changes.
class Stream {
 public:
  enum class Direction { kRead, kWrite };
  virtual ~Stream() = default;
  // Bytes read or written; 0: not now. kUnreachable: closed or failed, for good.
  virtual Result<std::size_t> read_some(std::span<std::byte> into) = 0;
  virtual Result<std::size_t> write_some(std::span<const ByteSpan> parts) = 0;
  // Blocks until a read or write may do something. kUnreachable when the deadline passed.
  virtual Status wait(Direction direction, TimePoint deadline) = 0;
};

// Does not own fd, which must be a non-blocking socket.
std::unique_ptr<Stream> make_socket_stream(int fd);

// Until the socket is ready for `events` of poll(2); an error or hang-up counts as ready, the next
// call on it reports it.
Status wait_ready(int fd, short events, TimePoint deadline);

// Both ends have one address: the peer runs on this host.
bool is_same_host(int fd);

// TCP_NODELAY, TCP_USER_TIMEOUT, keepalive, on a connected or connecting socket.
Status set_socket_options(int fd);

// kUsage when the address is not an IP literal.
Result<asio::ip::tcp::endpoint> parse_endpoint(const Endpoint& endpoint);
std::string endpoint_text(
    const asio::ip::tcp::endpoint& endpoint);  // "10.0.0.1:7164", "[::1]:7164"

Result<Nonce> random_nonce();  // getrandom

}  // namespace paddle::net
