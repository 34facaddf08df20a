// The setting that decides which connections of the data plane are sealed by TLS. Both ends make
// the same decision from the addresses of the connection, without a negotiation that an attacker
// between them could change.
#pragma once

#include <string_view>

#include "base/result.h"

namespace paddle::net {

enum class Transport {
  kSealed,  // connections that leave the host
  kAlways,  // all: for tunnels and proxies, whose loopback connections leave the host
  kClear,   // none
};
// Parses "sealed", "always" or "clear". kUsage: any other text.
Result<Transport> parse_transport(std::string_view text);
bool is_sealed(Transport transport, int socket);

}  // namespace paddle::net
