#include "remote/agent/machine/ports.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <map>
#include <sstream>

#include "remote/agent/machine/proc.h"

namespace paddle::agent {
namespace {

constexpr int kListenBacklog = 16;

// Listening TCP sockets: port -> inode (proc_net_tcp(5): local address, state 0A, inode).
std::multimap<std::uint32_t, std::uint64_t> listening_inodes() {
  std::multimap<std::uint32_t, std::uint64_t> found;
  for (const char* file : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::istringstream lines(text_of(file));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream fields(line);
      std::string slot, local, remote, state, queues, timer, retransmits, uid, timeout;
      std::uint64_t inode = 0;
      fields >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> uid >>
          timeout >> inode;
      const auto colon = local.rfind(':');
      if (state != "0A" || colon == std::string::npos) continue;
      std::uint32_t port = 0;
      std::from_chars(local.data() + colon + 1, local.data() + local.size(), port, 16);
      found.emplace(port, inode);
    }
  }
  return found;
}

// "pid 123 (name)" for each socket inode visible to this user.
std::map<std::uint64_t, std::string> socket_owners() {
  std::map<std::uint64_t, std::string> owners;
  for (const std::string& pid : names_under("/proc")) {
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    for (const std::uint64_t inode : sockets_of(std::atoi(pid.c_str()))) {
      std::string name = text_of("/proc/" + pid + "/comm");
      if (!name.empty() && name.back() == '\n') name.pop_back();
      owners.emplace(inode, "pid " + pid + " (" + name + ")");
    }
  }
  return owners;
}

}  // namespace

UniqueFd listen_at(in_addr address, std::uint32_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;  // as in the engine, so that TIME_WAIT does not hold a port
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<std::uint16_t>(port));
  name.sin_addr = address;
  const bool listens =
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0 &&
      ::listen(fd.get(), kListenBacklog) == 0;
  return listens ? std::move(fd) : UniqueFd();
}

Result<wire::agent::PortsReply> check_ports(const wire::agent::PortsRequest& request,
                                            const ClaimPort& claim) {
  in_addr address{};
  if (::inet_pton(AF_INET, request.address().c_str(), &address) != 1) {
    return Error{Errc::kUsage, "'" + request.address() + "' is not an IPv4 address", ""};
  }
  if (request.first() == 0 || request.count() > kPortsMax ||
      request.first() + request.count() > 65536) {
    return Error{Errc::kUsage, "ports must lie in 1..65535, at most 1024 at once", ""};
  }
  wire::agent::PortsReply reply;
  for (std::uint32_t port = request.first(); port < request.first() + request.count(); ++port) {
    auto* entry = reply.add_ports();
    entry->set_port(port);
    if (request.claim()) {
      // Claimed before it is tried: a later claimant may have opened it by then.
      PADDLE_TRY(const bool claimed, claim(port));
      entry->set_claimed(!claimed);
      if (!claimed) continue;
    }
    entry->set_free(static_cast<bool>(listen_at(address, port)));
    if (!entry->free() && errno == EADDRNOTAVAIL) {
      return Error{Errc::kUsage, request.address() + " is not an address of this node", ""};
    }
  }
  const auto inodes = listening_inodes();
  std::map<std::uint64_t, std::string> owners;
  for (auto& entry : *reply.mutable_ports()) {
    if (entry.free() || entry.claimed()) continue;
    if (owners.empty()) owners = socket_owners();
    const auto [begin, end] = inodes.equal_range(entry.port());
    for (auto at = begin; at != end; ++at) {
      if (const auto owner = owners.find(at->second); owner != owners.end()) {
        entry.set_owner(owner->second);
      }
    }
  }
  return reply;
}

}  // namespace paddle::agent
