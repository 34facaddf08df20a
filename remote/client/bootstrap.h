// Finds or installs the agent over a launcher and starts it; runs only constant command lines.
#pragma once

#include "remote/client/agent_client.h"

namespace paddle::remote {

// kUsage unless the path has only [A-Za-z0-9._/~-], no ".." and no leading '-', so that it is safe
// inside a double-quoted word of any shell.
Status check_shell_path(const std::string& path);

// Returns the channel past the sentinel, ready for frames; without fd when root is absent and not
// to be created. kVersion when the node's architecture or the agent's version differs, kAuth for an
// unsafe root.
Result<Channel> bootstrap(Launcher& launcher, const NodeSpec& node, const ConnectOptions& options,
                          TimePoint deadline);

// Implements folders_beside() of agent_client.h.
Result<std::vector<std::string>> list_folders_beside(Launcher& launcher, const NodeSpec& node,
                                                     TimePoint deadline);

// Implements machine_of() of agent_client.h.
Result<std::string> ask_machine(Launcher& launcher, const NodeSpec& node, TimePoint deadline);

}  // namespace paddle::remote
