// The files of a workspace, sorted out: what every node needs, what only trainer 0 tests on, what
// is one trainer's share.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/config/job_config.h"

namespace paddle::cli {

constexpr std::size_t kWorkspaceFilesMax = 100000;

// Paths are relative to the workspace. Hidden files, the folder "output" and what .paddleignore
// names (gitignore's rules, in any folder) are nobody's; files that [data] names are, all the same.
struct Workspace {
  std::string path;                              // absolute, without a trailing slash
  std::string name;                              // its last component
  std::vector<std::string> shared;               // job.toml, dictionary, scripts: every node
  std::map<std::string, std::string> links;      // symbolic links and their targets: every node
  std::vector<std::string> test;                 // the node of trainer 0
  std::vector<std::vector<std::string>> shares;  // by trainer
  bool mounted = false;              // [data] train is an absolute path, which every node has
  bool records_split = false;        // every share is all files, split by records
  std::vector<std::string> command;  // of trainers; none: the engine's
  std::uint32_t trainer_count = 1;   // threads of a trainer
  bool has_network = true;           // the engine can tell where its parameters would lie
};

// kUsage when the folder has no job.toml.
Status check_workspace(const std::string& path);
// kData when no file matches [data] train or test, all that do are empty, or a symbolic link leaves
// the workspace.
Result<Workspace> scan_workspace(const std::string& path, const config::JobConfig& job,
                                 std::uint32_t trainers);

}  // namespace paddle::cli
