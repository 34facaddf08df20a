// Traffic of this machine's TCP connections, as the kernel counts it (sock_diag(7)).
#pragma once

#include <cstdint>
#include <map>

namespace paddle::agent {

struct Traffic {
  std::uint64_t received_bytes = 0;
  std::uint64_t sent_bytes = 0;  // acknowledged ones
};

// By socket inode; empty where the kernel has no sock_diag.
std::map<std::uint64_t, Traffic> tcp_traffic();

}  // namespace paddle::agent
