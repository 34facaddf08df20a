// Whose a port is that cannot be taken.
#pragma once

#include <span>
#include <string>

#include "remote/agent_client.h"

namespace paddle::cli {

// The job of ours with a running process that holds the port, or "": it is somebody else's.
std::string job_on_port(const remote::PortStatus& port,
                        std::span<const remote::ProcessStatus> processes);

}  // namespace paddle::cli
