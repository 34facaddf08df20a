// What processes and their node use: memory, processor time, network.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "remote/agent/process/record.h"

namespace paddle::agent {

// By "<job>/<name>", of those whose supervisor lives: each with all it started.
std::map<std::string, wire::agent::Usage> usage_of(const std::vector<Record>& records);

wire::agent::NodeUsage node_usage();

}  // namespace paddle::agent
