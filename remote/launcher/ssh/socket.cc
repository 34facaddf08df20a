#include "remote/launcher/ssh/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include <fmt/format.h>

namespace paddle::remote {
namespace {

constexpr int kKeepIdleSeconds = 15;
constexpr int kKeepIntervalSeconds = 5;
constexpr int kKeepProbes = (kPeerLostSeconds - kKeepIdleSeconds) / kKeepIntervalSeconds;

void tune(int fd) {
  const auto set = [fd](int level, int option, int value) {
    ::setsockopt(fd, level, option, &value,
                 sizeof value);  // best effort: a slower socket works too
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(IPPROTO_TCP, TCP_QUICKACK, 1);  // the handshake is small messages both ways
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kKeepIdleSeconds);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kKeepIntervalSeconds);
  set(IPPROTO_TCP, TCP_KEEPCNT, kKeepProbes);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, kPeerLostSeconds * 1000);
}

Status wait_connected(int fd, TimePoint deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - SteadyClock().now());
    if (left.count() <= 0) return Error{Errc::kUnreachable, "no answer before the deadline", ""};
    pollfd item{fd, POLLOUT, 0};
    const int ready =
        ::poll(&item, 1, static_cast<int>(std::min<long long>(left.count(), 1 << 30)));
    if (ready < 0 && errno != EINTR) return system_error(Errc::kUnreachable, "poll");
    if (ready <= 0) continue;
    int code = 0;
    socklen_t size = sizeof code;
    if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size) != 0) code = errno;
    if (code == 0) return {};
    errno = code;
    return system_error(Errc::kUnreachable, "connect");
  }
}

Result<UniqueFd> connect_one(const addrinfo& address, TimePoint deadline) {
  UniqueFd fd(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return system_error(Errc::kResource, "socket");
  tune(fd.get());
  if (::connect(fd.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return system_error(Errc::kUnreachable, "connect");
    PADDLE_TRY_STATUS(wait_connected(fd.get(), deadline));
  }
  tune(fd.get());  // the kernel drops quick acknowledgement when the connection opens
  return fd;
}

}  // namespace

std::string endpoint_text(const std::string& host, std::uint16_t port) {
  return host.find(':') == host.npos ? fmt::format("{}:{}", host, port)
                                     : fmt::format("[{}]:{}", host, port);
}

Result<UniqueFd> connect_tcp(const std::string& host, std::uint16_t port, TimePoint deadline) {
  const std::string where = endpoint_text(host, port);
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_ADDRCONFIG;
  addrinfo* raw = nullptr;
  // The resolver keeps its own deadlines (resolv.conf timeout and attempts).
  if (const int code = ::getaddrinfo(host.c_str(), fmt::format("{}", port).c_str(), &wanted, &raw);
      code != 0) {
    return Error{Errc::kUnreachable, fmt::format("{}: {}", where, ::gai_strerror(code)),
                 "is the host name right, and does it resolve on this machine?"};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(raw, &::freeaddrinfo);
  Error last{Errc::kUnreachable, "no address", ""};
  for (const addrinfo* one = list.get(); one != nullptr; one = one->ai_next) {
    auto fd = connect_one(*one, deadline);
    if (fd) return fd;
    last = std::move(fd).error();
  }
  last.hint = "is the machine up, and does sshd listen on that port?";
  return std::move(last).with(where);
}

}  // namespace paddle::remote
