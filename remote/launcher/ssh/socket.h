// A TCP connection with a deadline and the socket options an SSH session wants.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"

namespace paddle::remote {

// Non-blocking, TCP_NODELAY, keep-alive: a vanished peer is detected within kPeerLostSeconds.
// Tries every address.
constexpr int kPeerLostSeconds = 30;
Result<UniqueFd> connect_tcp(const std::string& host, std::uint16_t port, TimePoint deadline);

// "host:port", or "[address]:port" for IPv6.
std::string endpoint_text(const std::string& host, std::uint16_t port);

}  // namespace paddle::remote
