#include "engine/net/mesh_sockets.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

#include <fmt/format.h>

namespace paddle::net::peer {
namespace {

constexpr int kBacklog = 512;

// Turns off TCP_USER_TIMEOUT: the kernel's timeout would also end a connection to a rank that is
// busy for long and reads nothing. Connection::unacknowledged() detects a lost peer instead.
Status set_options(int fd) {
  PADDLE_TRY_STATUS(set_socket_options(fd));
  const unsigned none = 0;
  if (::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &none, sizeof none) != 0) {
    return system_error(Errc::kUnreachable, "setsockopt");
  }
  return {};
}

// If nothing listens on the called port, the kernel may choose that port as our local port, and the
// socket connects to itself.
bool is_self_connected(int fd) {
  asio::ip::tcp::endpoint local;
  asio::ip::tcp::endpoint remote;
  auto local_size = static_cast<socklen_t>(local.capacity());
  auto remote_size = static_cast<socklen_t>(remote.capacity());
  return ::getsockname(fd, local.data(), &local_size) == 0 &&
         ::getpeername(fd, remote.data(), &remote_size) == 0 && local == remote;
}

}  // namespace

Result<UniqueFd> listen(const Endpoint& at) {
  PADDLE_TRY(const asio::ip::tcp::endpoint endpoint, parse_endpoint(at));
  const auto failed = [&](const char* call) {
    const bool is_taken = errno == EADDRINUSE;
    Error error =
        system_error(Errc::kResource, fmt::format("{} {}", call, endpoint_text(endpoint)));
    if (is_taken) error.hint = "another process holds the port: see `ss -tlnp`";
    return error;
  };
  UniqueFd fd(
      ::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return failed("socket");
  const int yes = 1;
  if (::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0) {
    return failed("setsockopt");
  }
  if (::bind(fd.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0) {
    return failed("bind");
  }
  if (::listen(fd.get(), kBacklog) != 0) return failed("listen");
  return fd;
}

Result<std::uint16_t> port_of(const UniqueFd& listener) {
  asio::ip::tcp::endpoint bound;
  auto size = static_cast<socklen_t>(bound.capacity());
  if (::getsockname(listener.get(), bound.data(), &size) != 0) {
    return system_error(Errc::kResource, "getsockname");
  }
  return bound.port();
}

std::optional<AcceptedCaller> next_caller(const UniqueFd& listener) {
  for (;;) {
    asio::ip::tcp::endpoint from;
    auto size = static_cast<socklen_t>(from.capacity());
    UniqueFd socket(::accept4(listener.get(), from.data(), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) return std::nullopt;
    from.resize(size);
    if (set_options(socket.get())) return AcceptedCaller{std::move(socket), source_of(from.data())};
  }
}

Result<UniqueFd> begin_call(const Endpoint& at) {
  PADDLE_TRY(const asio::ip::tcp::endpoint endpoint, parse_endpoint(at));
  UniqueFd fd(
      ::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return system_error(Errc::kResource, "socket");
  PADDLE_TRY_STATUS(set_options(fd.get()));
  if (::connect(fd.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0 &&
      errno != EINPROGRESS) {
    return system_error(Errc::kUnreachable, "connect");
  }
  return fd;
}

Result<bool> is_connected(int fd) {
  pollfd item{fd, POLLOUT, 0};
  if (::poll(&item, 1, 0) <= 0) return false;
  int code = 0;
  socklen_t size = sizeof code;
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size) != 0) code = errno;
  if (code != 0) {
    errno = code;
    return system_error(Errc::kUnreachable, "connect");
  }
  if (is_self_connected(fd)) return Error{Errc::kUnreachable, "connect: no program listens"};
  return true;
}

bool is_hung_up(int fd) {
  pollfd item{fd, POLLRDHUP, 0};
  return ::poll(&item, 1, 0) > 0;
}

}  // namespace paddle::net::peer
