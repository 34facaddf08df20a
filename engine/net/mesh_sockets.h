// The non-blocking sockets between ranks: a listener for the higher ranks, and calls to the lower
// ones.
#pragma once

#include "base/caller_source.h"
#include "engine/net/socket.h"

namespace paddle::net::peer {

// A socket that listens for the higher ranks. kResource: the port is taken; the message has address
// and port.
Result<UniqueFd> listen(const Endpoint& endpoint);
Result<std::uint16_t> port_of(const UniqueFd& listener);

struct AcceptedCaller {
  UniqueFd socket;
  CallerSource source{};
};
// The next caller, or nullopt if none waits.
std::optional<AcceptedCaller> next_caller(const UniqueFd& listener);

// Returns a socket that has begun to connect.
Result<UniqueFd> begin_call(const Endpoint& endpoint);
// True once the socket is connected. kUnreachable: the connection failed.
Result<bool> is_connected(int fd);

// Whether the other end has closed the socket, or it is broken; received bytes may still be unread.
bool is_hung_up(int fd);

}  // namespace paddle::net::peer
