// AgentClient::run over an agent's exchange.
#pragma once

#include "remote/agent_client.h"
#include "remote/agent_exchange.h"

namespace paddle::remote {

Result<CommandEnd> run_command(Exchange& exchange, const CommandSpec& command,
                               const CommandOutput& output,
                               const std::function<bool()>& interrupted);

}  // namespace paddle::remote
