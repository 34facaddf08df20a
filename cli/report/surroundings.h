// Machines and commands of a job, as its output folder keeps them for the report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"

namespace paddle::cli {

struct MachineRecord {
  std::string node, processor, os, kernel, gpus, agent_version;  // "": not known, or none
  double cores = 0, memory_bytes = 0;
  std::optional<std::int64_t> utc_offset_s;  // of the local time in its logs
};

// A start of the job: `train`, and each `train --resume`.
struct CommandRecord {
  std::int64_t unix_ms = 0;
  std::string text;     // as typed, quoted for a shell; values of --env are left out
  std::string version;  // of paddlectl and of the engine it brings along
};

// Writes machines.jsonl, an object for each node that answers.
Status write_machines(const std::string& folder, ClusterSession& session);
// Adds this command to <output>/<job>/commands.jsonl; makes the folder.
Status add_command(const Context& context, const std::string& output, const std::string& job);

// Nothing where the folder has no such file; damaged lines are left out.
std::vector<MachineRecord> read_machines(const std::string& folder);
std::vector<CommandRecord> read_commands(const std::string& folder);

}  // namespace paddle::cli
