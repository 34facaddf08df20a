// Conversions between the agent's messages about processes and the types of AgentClient.
#pragma once

#include "proto/agent.pb.h"
#include "remote/agent_client.h"

namespace paddle::remote {

JobClaim from_wire(const wire::agent::JobClaim& from);
wire::agent::ProcessSpec to_wire(const ProcessSpec& process);
// Of what a node says; a number that cannot be is left at its default. kData for names that no
// process of ours has.
Result<ProcessStatus> from_wire(const wire::agent::ProcessStatus& from);

}  // namespace paddle::remote
