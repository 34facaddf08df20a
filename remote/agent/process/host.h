// What the machine is, and which of its ports are free.
#pragma once

#include <netinet/in.h>

#include "proto/agent.pb.h"
#include "remote/agent/process/claims.h"
#include "remote/agent/root/root.h"

namespace paddle::agent {

wire::agent::Facts host_facts(const Root& root);
// The first that is not loopback, or 127.0.0.1.
std::string own_address();

constexpr std::uint32_t kPortsMax = 1024;  // a request
// A port is free when it can be bound and listened on at the address (IPv4, dotted), and when it
// can be claimed where that is asked for.
Result<wire::agent::PortsReply> check_ports(const wire::agent::PortsRequest& request,
                                            Claims& claims);

// Nothing when it cannot; errno says why.
UniqueFd listen_at(in_addr address, std::uint32_t port);

}  // namespace paddle::agent
