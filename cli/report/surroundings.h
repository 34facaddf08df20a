// Machines and commands of a job, as its output folder keeps them for the report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"

namespace paddle::cli {

struct MachineRecord {
  std::string node, processor, os, kernel, gpus, agent_version;  // "": not known, or none
  double cores = 0, memory_bytes = 0;
  std::optional<std::int64_t> utc_offset_s;  // of the local time in its logs
};

// The command that resumes a job as it was started. "" where that is not known.
struct ResumeCommand {
  std::string text;       // quoted for a shell
  std::string variables;  // of --env, "TOKEN, KEY": their values are not in the text

  // "resume with: paddlectl train ...", or "export TOKEN, then resume with: ...".
  std::string after(std::string_view lead) const;
};

// A start of the job: `train`, and each `train --resume`.
struct CommandRecord {
  std::int64_t unix_ms = 0;
  std::string text;     // as typed, quoted for a shell; values of --env are left out
  std::string version;  // of paddlectl and of the engine it brings along
  ResumeCommand resume = {};
  bool is_resume = false;
  std::size_t trainers = 0, pservers = 0;  // started by it; none of either: not known
};

// `arguments`: as typed, with the command's own word at the index `command`. No text for another
// command than `train`.
ResumeCommand resume_command(const std::vector<std::string>& arguments, std::size_t command,
                             const std::string& job);
// The same of `values` of --set, for a job of which nothing else is known.
ResumeCommand resume_command_of(const std::string& job, const std::vector<std::string>& values);

// Writes machines.jsonl, an object for each node that answers.
Status write_machines(const std::string& folder, ClusterSession& session);
// Adds this command to <output>/<job>/commands.jsonl, with the counts and the kind of `started`;
// makes the folder.
Status add_command(const Context& context, const std::string& output, const std::string& job,
                   const CommandRecord& started = {});

// Nothing where the folder has no such file; damaged lines are left out.
std::vector<MachineRecord> read_machines(const std::string& folder);
std::vector<CommandRecord> read_commands(const std::string& folder);

}  // namespace paddle::cli
