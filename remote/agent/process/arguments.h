// The command line and environment of a process, made from its specification.
#pragma once

#include <string>
#include <vector>

#include "proto/agent.pb.h"
#include "remote/agent/process/child.h"
#include "remote/agent/root/root.h"

namespace paddle::agent {

// The node's PATH, HOME, ..., as NAME=value, passed to every process.
using Environment = std::vector<std::string>;

// Fills the placeholders {root}, {life} and {again}, and looks up a program without a path in the
// process's own PATH. The variables of the specification replace those of the node.
Program program_of(const wire::agent::ProcessSpec& spec, const Root& root, std::uint32_t life,
                   const Environment& environment);

}  // namespace paddle::agent
