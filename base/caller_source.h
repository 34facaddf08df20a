// The source by which a server counts its callers.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>

namespace paddle {

// An IPv4 address, or the 64-bit network of an IPv6 address, because one host may use all addresses
// of its network. Stored as an IPv6 address; an IPv4 address is stored as ::ffff:10.0.0.1.
using CallerSource = std::array<std::uint8_t, 16>;
// All callers of other families, such as local sockets, have one source.
CallerSource source_of(const sockaddr* caller);

}  // namespace paddle
