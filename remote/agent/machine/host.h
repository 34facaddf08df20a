// Facts about this machine: system, hardware, address.
#pragma once

#include "proto/agent.pb.h"
#include "remote/agent/root/root.h"

namespace paddle::agent {

wire::agent::Facts host_facts(const Root& root);

// The first IPv4 address that is not loopback, or 127.0.0.1.
std::string own_address();

}  // namespace paddle::agent
