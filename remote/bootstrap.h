// The way from a launcher to a running agent, by constant command lines only.
#pragma once

#include "remote/agent_client.h"

namespace paddle::remote {

// Only [A-Za-z0-9._/~-], no "..", no leading '-': safe inside a double-quoted word of any shell.
Status check_shell_path(const std::string& path);

// The channel past the sentinel, ready for frames; without fd: root is absent.
// kVersion when the node's architecture or the agent's version differs, kAuth for an unsafe root.
Result<Channel> bootstrap(Launcher& launcher, const NodeSpec& node, const ConnectOptions& options,
                          TimePoint deadline);

// As folders_beside() of agent_client.h.
Result<std::vector<std::string>> list_folders_beside(Launcher& launcher, const NodeSpec& node,
                                                     TimePoint deadline);

}  // namespace paddle::remote
