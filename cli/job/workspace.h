// The files of a workspace, by the nodes that need them: all nodes, the node of trainer 0, or the
// node of one trainer.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/config/job_config.h"

namespace paddle::cli {

constexpr std::size_t kWorkspaceFilesMax = 100000;
constexpr std::string_view kJobFile = "job.toml";  // at the root of a workspace

// Paths are relative to the workspace. Hidden files, the folder "output", snapshots, and files that
// match .paddleignore (in any folder, by gitignore's rules) are left out unless [data] names them;
// a rule "!saved/pass-00000" pushes that snapshot.
struct Workspace {
  std::string path;                          // absolute, without a trailing slash
  std::string name;                          // its last component
  std::vector<std::string> common;           // job.toml, dictionary, scripts: every node
  std::map<std::string, std::string> links;  // symbolic links and their targets: every node
  std::vector<std::string> test;             // for the node of trainer 0: files with held-out data
  std::vector<std::vector<std::string>> trainer_data;  // by trainer: its part of [data] train
  std::vector<std::string> snapshots;                  // folders that were left out
  bool mounted = false;              // [data] train is mounted, or objects; not in the workspace
  bool records_split = false;        // every trainer gets all files, and its part of their records
  std::vector<std::string> command;  // the user's own trainer program; none: the engine
  std::vector<std::string> setup;    // a program that prepares nodes for the trainers
  std::string requirements;          // file that lists their Python packages; "": none
  std::string venv;                  // name of their environment, by its content
  std::vector<std::string> wheel_folders;   // folders with wheels; ".": the workspace
  std::uint32_t trainer_count = 1;          // threads of a trainer
  std::uint32_t snapshot_copies = 1;        // number of nodes that save each snapshot
  bool has_group = false;                   // trainers keep dense parameters among themselves
  bool has_node_groups = false;             // the trainers of a node push one sum of gradients
  bool has_network = true;                  // job.toml describes a network, for `paddle plan`
  std::vector<config::TableConfig> tables;  // which pservers keep for the user's own program
  bool lacks_statistics = false;  // the engine's trainers need them, and [data] names no file

  // Whether each trainer gets its own port to listen on.
  bool trainers_listen() const { return !command.empty() || trainers_talk(); }
  // Whether the engine's trainers have connections to each other.
  bool trainers_talk() const { return has_group || has_node_groups; }
  // Whether the snapshots are the program's own, in a form that only it knows.
  bool has_own_snapshots() const { return !command.empty() && tables.empty(); }
};

// kUsage: there are no pservers although the job's trainers keep parameters or tables on pservers,
// or there are some although they do not. The only trainer of a collective job, on a GPU, keeps its
// tables there.
Status check_pservers(const config::JobConfig& job, std::size_t pservers,
                      bool is_alone_on_gpu = false);
// kUsage: the folder has no job.toml. kAuth: other users could have written it.
Status check_workspace(const std::string& path);
// kData: no file matches [data] train or test, all matching files are empty, or a symbolic link
// leads out of the workspace.
Result<Workspace> scan_workspace(const std::string& path, const config::JobConfig& job,
                                 std::uint32_t trainers);

}  // namespace paddle::cli
