// Which connections of the data plane are sealed. Both ends decide alike, by the addresses of the
// connection: there is no negotiation that somebody between them could steer.
#pragma once

#include <string_view>

#include "base/result.h"

namespace paddle::net {

enum class Transport {
  kSealed,  // those that leave the host
  kAlways,  // all, for where loopback leads elsewhere: a tunnel, a proxy
  kClear,   // none
};
// "sealed", "always" or "clear". kUsage.
Result<Transport> parse_transport(std::string_view text);
bool is_sealed(Transport transport, int socket);

}  // namespace paddle::net
