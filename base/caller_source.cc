#include "base/caller_source.h"

#include <netinet/in.h>

#include <cstring>

namespace paddle {

CallerSource source_of(const sockaddr* caller) {
  constexpr std::size_t kNetworkBytes = 8, kMappedBytes = 12;
  CallerSource source{};
  if (caller->sa_family == AF_INET) {
    const in_addr& ip = reinterpret_cast<const sockaddr_in*>(caller)->sin_addr;
    source[kMappedBytes - 2] = source[kMappedBytes - 1] = 0xff;
    std::memcpy(source.data() + kMappedBytes, &ip, sizeof ip);
  } else if (caller->sa_family == AF_INET6) {
    const in6_addr& ip = reinterpret_cast<const sockaddr_in6*>(caller)->sin6_addr;
    const bool is_host = IN6_IS_ADDR_V4MAPPED(&ip) || IN6_IS_ADDR_LOOPBACK(&ip);
    std::memcpy(source.data(), &ip, is_host ? sizeof ip : kNetworkBytes);
  }
  return source;
}

}  // namespace paddle
