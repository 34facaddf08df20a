// The sockets between ranks: a listener for the higher ones, and calls to the lower ones. None
// blocks.
#pragma once

#include "engine/net/socket.h"

namespace paddle::net::peer {

// A socket that listens for the higher ranks. kResource names the address and the port when it is
// taken.
Result<UniqueFd> listen(const Endpoint& endpoint);
Result<std::uint16_t> port_of(const UniqueFd& listener);

struct AcceptedCaller {
  UniqueFd socket;
  asio::ip::address source;  // as source_of() has it
};
// The next caller, or nothing now.
std::optional<AcceptedCaller> next_caller(const UniqueFd& listener);

// A socket that begins to connect.
Result<UniqueFd> begin_call(const Endpoint& endpoint);
// True once it is connected.
Result<bool> is_connected(int fd);

// The other end has closed it, though not all that came may have been read; or it is broken.
bool is_hung_up(int fd);

}  // namespace paddle::net::peer
