// Memory, processor time and network traffic of processes and of their node.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "remote/agent/process/record.h"

namespace paddle::agent {

// The usage of each process whose supervisor runs, with its descendants; by "<job>/<name>".
std::map<std::string, wire::agent::Usage> usage_of(const std::vector<Record>& records);

wire::agent::NodeUsage node_usage();

}  // namespace paddle::agent
