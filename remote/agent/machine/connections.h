// What went through the TCP connections of this machine, as the kernel counts it (sock_diag(7)).
#pragma once

#include <cstdint>
#include <map>

namespace paddle::agent {

struct Traffic {
  std::uint64_t received_bytes = 0;
  std::uint64_t sent_bytes = 0;  // and acknowledged
};

// By socket inode; none where the kernel does not tell.
std::map<std::uint64_t, Traffic> tcp_traffic();

}  // namespace paddle::agent
