// The files of a workspace by the nodes that need them: all, that of trainer 0, those of one
// trainer.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/config/job_config.h"

namespace paddle::cli {

constexpr std::size_t kWorkspaceFilesMax = 100000;

// Paths are relative to the workspace. Hidden files, the folder "output", snapshots and files that
// .paddleignore names (in any folder, with gitignore's rules) are left out, unless [data] names
// them; a rule "!saved/pass-00000" pushes that snapshot.
struct Workspace {
  std::string path;                          // absolute, without a trailing slash
  std::string name;                          // its last component
  std::vector<std::string> common;           // job.toml, dictionary, scripts: every node
  std::map<std::string, std::string> links;  // symbolic links and their targets: every node
  std::vector<std::string> test;             // the node of trainer 0
  std::vector<std::vector<std::string>> trainer_data;  // by trainer: its part of [data] train
  std::vector<std::string> snapshots;                  // folders that were left out
  bool mounted = false;        // [data] train is no file of the workspace: mounted, or objects
  bool records_split = false;  // every trainer gets all files, and its part of their records
  std::vector<std::string> command;  // the user's own trainer program; none: the engine
  std::vector<std::string> setup;    // prepares a node for the trainers; none: nothing
  std::string requirements;          // file of the Python packages that they need; "": none
  std::string venv;                  // name of the environment that has them, by their content
  std::vector<std::string> wheel_folders;  // of the workspace, "." for itself
  std::uint32_t trainer_count = 1;         // threads of a trainer
  std::uint32_t snapshot_copies = 1;       // nodes that each snapshot is saved on
  bool has_group = false;                  // trainers keep dense parameters among themselves
  bool has_node_groups = false;            // those of one node push one sum of their gradients
  bool has_network = true;                 // job.toml describes one, which the engine can plan

  // Whether each trainer gets a port of its own to listen on.
  bool trainers_listen() const { return !command.empty() || trainers_talk(); }
  // Whether the engine's trainers have connections to each other.
  bool trainers_talk() const { return has_group || has_node_groups; }
};

// kUsage for none where the job's trainers keep their parameters on pservers, and for some where
// they do not. A collective job's only trainer, on a GPU, has its tables there.
Status check_pservers(const config::JobConfig& job, std::size_t pservers,
                      bool is_alone_on_gpu = false);
// kUsage when the folder has no job.toml, kAuth when others could have written it.
Status check_workspace(const std::string& path);
// kData when no file matches [data] train or test, all that do are empty, or a symbolic link leaves
// the workspace.
Result<Workspace> scan_workspace(const std::string& path, const config::JobConfig& job,
                                 std::uint32_t trainers, std::size_t pservers);

}  // namespace paddle::cli
