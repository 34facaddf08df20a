// Loopback ports that nobody listens on.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

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

// A socket whose name says that this process uses a block of ports, until it ends; none if another
// process does. A port that is free now may be a port that another test is about to listen on.
inline UniqueFd claim(std::uint32_t block) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const std::string name = "paddle-test-ports-" + std::to_string(block);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path + 1, sizeof address.sun_path - 1);  // behind 0: no file
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const bool ok = ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) == 0;
  return ok ? std::move(fd) : UniqueFd();
}

// The first of `count` free ports in a row, below the ephemeral range. Successive calls in a
// process differ, and so do processes that run at the same time; 0 when there is none.
inline std::uint16_t free_ports(std::uint16_t count) {
  constexpr std::uint32_t kFirst = 12000;
  constexpr std::uint32_t kBlockPorts = 64;
  constexpr std::uint32_t kBlocks = 280;
  static std::vector<UniqueFd> claims;
  static std::uint32_t next = 0;  // of the ports that are claimed
  static std::uint32_t end = 0;
  for (std::uint32_t attempt = 0; attempt < 4 * kBlocks; ++attempt) {
    if (end - next < count) {
      const std::uint32_t blocks = (count + kBlockPorts - 1) / kBlockPorts;
      const std::uint32_t first =
          (static_cast<std::uint32_t>(::getpid()) + attempt) % (kBlocks + 1 - blocks);
      std::vector<UniqueFd> run;
      for (std::uint32_t i = 0; i < blocks; ++i) {
        if (UniqueFd one = claim(first + i)) run.push_back(std::move(one));
      }
      if (run.size() < blocks) continue;
      std::ranges::move(run, std::back_inserter(claims));
      next = kFirst + first * kBlockPorts;
      end = next + blocks * kBlockPorts;
    }
    const auto base = static_cast<std::uint16_t>(next);
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
