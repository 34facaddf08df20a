#include "engine/net/transport.h"

#include <fmt/format.h>

#include "engine/net/socket.h"

namespace paddle::net {

Result<Transport> parse_transport(std::string_view text) {
  if (text == "sealed") return Transport::kSealed;
  if (text == "always") return Transport::kAlways;
  if (text == "clear") return Transport::kClear;
  return Error{Errc::kUsage,
               fmt::format("unknown transport '{}'; use sealed, always or clear", text)};
}

bool is_sealed(Transport transport, int socket) {
  return transport == Transport::kAlways ||
         (transport == Transport::kSealed && !stays_on_host(socket));
}

}  // namespace paddle::net
