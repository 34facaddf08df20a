// Loopback ports that nobody listens on.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>

#include "base/fd.h"

namespace paddle::test {

// A socket that has a port and does not listen; none if the port is taken.
inline UniqueFd bind_to(std::uint16_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int reuse = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
  const bool ok = ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  return ok ? std::move(fd) : UniqueFd();
}

// A listening socket; none if the port is taken.
inline UniqueFd listen_on(std::uint16_t port) {
  UniqueFd fd = bind_to(port);
  return fd && ::listen(fd.get(), 1) == 0 ? std::move(fd) : UniqueFd();
}

// The first of `count` free ports in a row, below the ephemeral range. Successive calls in a
// process differ, and so do processes; 0 when there is none.
inline std::uint16_t free_ports(std::uint16_t count) {
  static std::uint32_t next = static_cast<std::uint32_t>(::getpid()) * 64;
  constexpr std::uint32_t kFirst = 12000;
  constexpr std::uint32_t kRange = 18000;
  for (int attempt = 0; attempt < 500; ++attempt) {
    const auto base = static_cast<std::uint16_t>(kFirst + next % kRange);
    next += count;
    bool all_free = true;
    for (std::uint16_t i = 0; i < count && all_free; ++i) {
      all_free = static_cast<bool>(listen_on(static_cast<std::uint16_t>(base + i)));
    }
    if (all_free) return base;
  }
  return 0;
}

}  // namespace paddle::test
