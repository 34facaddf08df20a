// This machine: its system, hardware, address and TCP ports.
#pragma once

#include <netinet/in.h>

#include <functional>

#include "base/fd.h"
#include "base/result.h"
#include "proto/agent.pb.h"
#include "remote/agent/root/root.h"

namespace paddle::agent {

wire::agent::Facts host_facts(const Root& root);

// The first IPv4 address that is not loopback, or 127.0.0.1.
std::string own_address();

constexpr std::uint32_t kPortsMax = 1024;  // per request

// Claims a port for this session; which other session has it, or "".
using ClaimPort = std::function<Result<std::string>(std::uint32_t port)>;

// A port is free when it can be bound and listened on at the address (dotted IPv4), and claimed if
// the request asks for that.
Result<wire::agent::PortsReply> check_ports(const wire::agent::PortsRequest& request,
                                            const ClaimPort& claim);

// A listening socket; empty, with errno set, when the port is taken or the address not ours.
UniqueFd listen_at(in_addr address, std::uint32_t port);

}  // namespace paddle::agent
