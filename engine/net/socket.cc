#include "engine/net/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <thread>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <fmt/format.h>

namespace paddle::net {
namespace {

// TCP_USER_TIMEOUT: how long sent data may stay unacknowledged. The time also runs while a healthy
// peer's window is full (measured: with 3 s, a trainer is reset that computes for 3 s with a large
// reply unread), so it must exceed the longest time for which a healthy peer does not read.
constexpr int kUserTimeoutMs = 30'000;
constexpr int kKeepaliveIdleSeconds = 5;  // then a probe a second, until the user timeout
constexpr int kKeepaliveIntervalSeconds = 1;
constexpr int kKeepaliveProbes = 3;
constexpr int kPausesPerSpin = 16;

class SocketStream final : public Stream {
 public:
  explicit SocketStream(int fd) : fd_(fd) {}

  Result<std::size_t> read_some(std::span<std::byte> into) override {
    PADDLE_CHECK(!into.empty());
    return receive([&] { return ::recv(fd_, into.data(), into.size(), 0); });
  }

  Result<std::size_t> read_parts(std::span<const std::span<std::byte>> parts) override {
    std::array<iovec, kScatterPartsMax> vectors;
    PADDLE_CHECK(!parts.front().empty() && parts.size() <= vectors.size());
    for (std::size_t i = 0; i < parts.size(); ++i) vectors[i] = {parts[i].data(), parts[i].size()};
    return receive([&] { return ::readv(fd_, vectors.data(), static_cast<int>(parts.size())); });
  }

  Result<std::size_t> write_some(std::span<const ByteSpan> parts) override {
    std::array<iovec, kGatherPartsMax> vectors;
    PADDLE_CHECK(!parts.empty() && parts.size() <= vectors.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      vectors[i] = {const_cast<std::byte*>(parts[i].data()), parts[i].size()};
    }
    msghdr message{};
    message.msg_iov = vectors.data();
    message.msg_iovlen = parts.size();
    for (;;) {
      const ssize_t put = ::sendmsg(fd_, &message, MSG_NOSIGNAL);
      if (put >= 0) return static_cast<std::size_t>(put);
      if (errno == EAGAIN || errno == EWOULDBLOCK) return std::size_t{0};
      if (errno != EINTR) return system_error(Errc::kUnreachable, "send");
    }
  }

  Status wait(Direction direction, TimePoint deadline) override {
    pollfd item{fd_, static_cast<short>(direction == Direction::kRead ? POLLIN : POLLOUT), 0};
    const TimePoint spin_until = std::min(deadline, SteadyClock().now() + kSpin);
    while (SteadyClock().now() < spin_until) {
      if (::poll(&item, 1, 0) > 0) return {};
      spin_once();
    }
    return wait_ready(fd_, item.events, deadline);
  }

 private:
  template <class Call>
  static Result<std::size_t> receive(Call&& call) {
    for (;;) {
      const ssize_t got = call();
      if (got > 0) return static_cast<std::size_t>(got);
      if (got == 0) return Error{Errc::kUnreachable, "closed by peer"};
      if (errno == EAGAIN || errno == EWOULDBLOCK) return std::size_t{0};
      if (errno != EINTR) return system_error(Errc::kUnreachable, "receive");
    }
  }

  int fd_;
};

// The addresses of both ends.
std::optional<std::pair<asio::ip::address, asio::ip::address>> ends_of(int fd) {
  asio::ip::tcp::endpoint local;
  asio::ip::tcp::endpoint remote;
  auto local_size = static_cast<socklen_t>(local.capacity());
  auto remote_size = static_cast<socklen_t>(remote.capacity());
  if (::getsockname(fd, local.data(), &local_size) != 0 ||
      ::getpeername(fd, remote.data(), &remote_size) != 0)
    return std::nullopt;
  return std::pair(local.address(), remote.address());
}

}  // namespace

void spin_once() {
  for (int i = 0; i < kPausesPerSpin; ++i) {
#if defined(__x86_64__)
    _mm_pause();
#endif
  }
  std::this_thread::yield();
}

std::unique_ptr<Stream> make_socket_stream(int fd) {
  if (stays_on_host(fd)) {
    // Within a host there is no network to probe: a congestion control that paces packets, such as
    // bbr, only costs time. Every kernel has reno.
    constexpr std::string_view kReno = "reno";
    (void)::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kReno.data(), kReno.size());
  }
  return std::make_unique<SocketStream>(fd);
}

bool is_same_host(int fd) {
  const auto ends = ends_of(fd);
  return ends && ends->first == ends->second;
}

bool stays_on_host(int fd) {
  const auto ends = ends_of(fd);
  return ends &&
         (ends->first == ends->second || (ends->first.is_loopback() && ends->second.is_loopback()));
}

Status set_socket_options(int fd) {
  struct Option {
    int level;
    int name;
    int value;
  };
  constexpr Option kOptions[] = {
      {IPPROTO_TCP, TCP_NODELAY, 1},
      {IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs},
      {SOL_SOCKET, SO_KEEPALIVE, 1},
      {IPPROTO_TCP, TCP_KEEPIDLE, kKeepaliveIdleSeconds},
      {IPPROTO_TCP, TCP_KEEPINTVL, kKeepaliveIntervalSeconds},
      {IPPROTO_TCP, TCP_KEEPCNT, kKeepaliveProbes},
  };
  for (const Option& option : kOptions) {
    if (::setsockopt(fd, option.level, option.name, &option.value, sizeof option.value) != 0) {
      return system_error(Errc::kUnreachable, "setsockopt");
    }
  }
  return {};
}

Result<asio::ip::tcp::endpoint> parse_endpoint(const Endpoint& endpoint) {
  asio::error_code code;
  const auto address = asio::ip::make_address(endpoint.address, code);
  if (code) {
    return Error{Errc::kUsage, fmt::format("'{}' is not an IP address", endpoint.address)};
  }
  return asio::ip::tcp::endpoint(address, endpoint.port);
}

std::string endpoint_text(const asio::ip::tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  return endpoint.address().is_v6() ? fmt::format("[{}]:{}", address, endpoint.port())
                                    : fmt::format("{}:{}", address, endpoint.port());
}

}  // namespace paddle::net
