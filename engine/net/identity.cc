#include "engine/net/identity.h"

#include <arpa/inet.h>
#include <ifaddrs.h>

#include <array>
#include <charconv>
#include <memory>

#include <fmt/format.h>
#include <net/if.h>

#include "base/log.h"
#include "base/rng.h"
#include "base/text.h"

namespace paddle::net {
namespace {

// A fixed, public key to try `paddle pserver` and `paddle train` by hand on one machine.
constexpr std::string_view kDevelopmentKey = "paddlectl development key, no use";
static_assert(kDevelopmentKey.size() >= kSecretBytes);

bool is_loopback(const std::string& address) {
  in_addr v4{};
  if (::inet_pton(AF_INET, address.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24U) == 127;
  in6_addr v6{};
  return ::inet_pton(AF_INET6, address.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

bool is_literal(const std::string& address) {
  in6_addr any{};
  return ::inet_pton(AF_INET, address.c_str(), &any) == 1 ||
         ::inet_pton(AF_INET6, address.c_str(), &any) == 1;
}

}  // namespace

std::uint64_t job_tag_of(const std::string& text) {
  std::uint64_t tag = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, tag, 16);
  return error == std::errc() && at == end ? tag : stable_hash(text);
}

Result<JobKeys> job_keys(const std::string& key_file, std::span<const std::string> addresses) {
  if (!key_file.empty()) return JobKeys::read(key_file);
  for (const std::string& address : addresses) {
    if (!is_loopback(address)) {
      return Error{
          Errc::kAuth,
          fmt::format("{} is not a loopback address and there is no --key_file",
                      escape_control(address)),
          "head -c 32 /dev/urandom > job.key; chmod 600 job.key; give it to all processes"};
    }
  }
  log_warning(
      "no --key_file: any user of this machine may join the job; "
      "head -c 32 /dev/urandom > job.key; chmod 600 job.key; give it to all processes");
  PADDLE_TRY(const Secret secret,
             Secret::from_bytes(as_bytes(kDevelopmentKey.substr(0, kSecretBytes))));
  return JobKeys::of_job(secret);
}

// The C library's resolver needs its shared objects, which a static program may not find, so the
// launcher resolves names. Only "localhost" is resolved here.
Result<std::string> resolve_address(const std::string& host) {
  if (is_literal(host)) return host;
  if (host == "localhost") return std::string("127.0.0.1");
  return Error{Errc::kUsage, fmt::format("'{}' is not an IP address", escape_control(host)),
               "paddlectl passes addresses; look the name up with: getent hosts NAME"};
}

Result<std::string> interface_address(const std::string& name) {
  if (is_literal(name)) return name;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return Error{Errc::kResource, "cannot list network interfaces"};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owned(all, &::freeifaddrs);
  std::string seen;
  std::string of_ipv6;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    if (name == one->ifa_name && one->ifa_addr->sa_family == AF_INET6 && of_ipv6.empty()) {
      std::array<char, INET6_ADDRSTRLEN> text{};
      const in6_addr& ip = reinterpret_cast<const sockaddr_in6*>(one->ifa_addr)->sin6_addr;
      if (!IN6_IS_ADDR_LINKLOCAL(&ip)) ::inet_ntop(AF_INET6, &ip, text.data(), text.size());
      of_ipv6 = text.data();
    }
    if (one->ifa_addr->sa_family != AF_INET) continue;
    if (name != one->ifa_name) {
      seen += fmt::format("{}{}", seen.empty() ? "" : ", ", one->ifa_name);
      continue;
    }
    std::array<char, INET_ADDRSTRLEN> text{};
    const auto* const address = reinterpret_cast<const sockaddr_in*>(one->ifa_addr);
    ::inet_ntop(AF_INET, &address->sin_addr, text.data(), text.size());
    return std::string(text.data());
  }
  if (!of_ipv6.empty()) return of_ipv6;
  return Error{Errc::kUsage,
               fmt::format("no interface '{}' with an IP address", escape_control(name)),
               fmt::format("this machine has {}", seen)};
}

}  // namespace paddle::net
