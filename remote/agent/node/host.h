// This machine: its system, hardware, address and TCP ports.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <functional>

#include "base/fd.h"
#include "base/result.h"
#include "proto/agent.pb.h"
#include "remote/agent/node/root.h"

namespace paddle::agent {

wire::agent::Facts host_facts(const Root& root);

// The folder's id is made by the first agent that is asked for it.
wire::agent::NodeIdentity node_identity(const Root& root);

// The first IPv4 address that is not loopback; otherwise the first IPv6 address that other machines
// can reach; otherwise 127.0.0.1.
std::string own_address();

// An IPv4 or IPv6 address and a port, in the form of the socket calls.
struct IpEndpoint {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* data() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* data() { return reinterpret_cast<sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  std::uint32_t port() const {  // at the same offset in both families
    return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
  }
};
// The address without its port: "127.0.0.1", "::1"; "" for another family, and for null.
std::string address_text(const sockaddr* address);
// kUsage when the text is not an IP address; names are not looked up.
Result<IpEndpoint> parse_ip(const std::string& address, std::uint32_t port);
bool is_loopback(const std::string& address);

constexpr std::uint32_t kPortsMax = 1024;  // per request

// Claims a port for this session. Returns the other session that has it, or "".
using ClaimPort = std::function<Result<std::string>(std::uint32_t port)>;

// A port is free when it can be bound and listened on at the address, and claimed if
// the request asks for that.
Result<wire::agent::PortsReply> check_ports(const wire::agent::PortsRequest& request,
                                            const ClaimPort& claim);

// A listening socket; empty, with errno set, when the port is taken or the address is not this
// machine's.
UniqueFd listen_at(const IpEndpoint& at);

}  // namespace paddle::agent
