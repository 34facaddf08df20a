// Fetches the logs and snapshots of a job into its output folder here: the folder with its lock and
// the room on its disk, the fetch, and the record of the fetch on the nodes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"
#include "cli/job/passes.h"
#include "remote/client/agent_client.h"

namespace paddle::cli {

// A path as it is printed: relative if it is below the current directory, absolute in JSON.
std::string shown_path(const Context& context, const std::string& path);

// Makes a folder at or below `base`, with its parents. kResource: it cannot be made. kData: a
// folder on the way from `base` is a link or belongs to another user. The author of the workspace
// can place such a folder, and so can a user with write access to the current directory. kAuth:
// other users could replace a folder on the way, up to the root. `hint` is the next step.
Status make_folder(const std::filesystem::path& base, const std::filesystem::path& folder,
                   const std::string& hint);
// Makes <output>/<name> in the same way; `name`: of a job or a node. If <output> is below the
// current directory, every folder on the way from that directory is checked.
Result<std::filesystem::path> make_output_folder(const Context& context, const std::string& output,
                                                 const std::string& name, const std::string& hint);
// Refuses what make_output_folder() refuses, and makes nothing. For commands that read the folder,
// or write to it later.
Status check_output_folder(const Context& context, const std::string& output,
                           const std::string& name, const std::string& hint);

// Lets one paddlectl at a time write to a job's output folder. Others wait, and then find the files
// that the first one fetched. The lock ends with this object or with the program. The kernel holds
// it, so it also ends with a program that is killed; a lock file that is left behind locks nothing.
class OutputLock {
 public:
  // Waits for the process that holds the lock, and names it. kInterrupted: Ctrl-C. A file system
  // that is read-only or has no locks is no error: the folder then stays unlocked. Files still
  // appear whole, because each is first written under another name.
  static Result<OutputLock> take(Context& context, const std::filesystem::path& folder);

  OutputLock(OutputLock&&) = default;
  OutputLock& operator=(OutputLock&&) = delete;
  ~OutputLock();

  bool is_held() const { return static_cast<bool>(file_); }

 private:
  OutputLock(std::filesystem::path path, UniqueFd file)
      : path_(std::move(path)), file_(std::move(file)) {}

  std::filesystem::path path_;
  UniqueFd file_;
};

// Room on this machine's disk for files that nodes have listed. Thread-safe.
class DiskRoom {
 public:
  // `shown` names the folder in errors. The folder need not exist yet.
  DiskRoom(const std::filesystem::path& folder, std::string shown);

  // Reserves room for the files of a node, before their first byte arrives. kResource: they need
  // more room than is left; the error names the node and the largest file.
  Status reserve(const std::string& node, const std::vector<remote::FetchItem>& files);
  std::uint64_t free_bytes() const { return free_; }
  std::uint64_t reserved_bytes() const { return reserved_; }

 private:
  const std::string shown_;
  std::uint64_t free_;  // when this command began
  std::mutex mutex_;
  std::uint64_t reserved_ = 0;
};

// The results that were fetched from a node. The record is beside the job on that node, so that
// teardown and rm know on any machine what would be lost.
struct FetchRecord {
  std::int64_t started_unix_ms = 0;            // latest_start() at the time of the fetch
  std::map<std::string, std::uint64_t> sizes;  // by path below output/
};

// The start time of the job's latest process on that node; 0: it has none. A start after the fetch
// makes the record void, because files may have changed since.
std::int64_t latest_start(const std::vector<ProcessOnNode>& processes, std::size_t member,
                          const std::string& job);

// Empty if nothing was fetched, or only before `started_unix_ms`.
FetchRecord read_fetch_record(remote::AgentClient& client, const std::string& job,
                              std::int64_t started_unix_ms);
// Writes the record through a temporary file in the local folder.
Status write_fetch_record(remote::AgentClient& client, const std::string& job,
                          const FetchRecord& record, const std::string& folder);

struct FetchStats {
  std::size_t files = 0, files_fetched = 0;
  std::vector<std::string> left;     // snapshots that were not asked for and stay on the nodes
  std::vector<std::string> missing;  // those not here from an earlier fetch
  std::uint64_t missing_bytes = 0;
};

// Fetches logs, files that the job's own program saved, and the snapshots of `passes` with the
// bases of deltas, into <output>/<job>/{node_<i>/..., pass-0000N/...}; without `passes` only logs.
// Prints how much before it starts.
// Checks every file against the SHA-256 that its node listed before the file gets its name. Skips
// files that are here with the same SHA-256, and fetches a snapshot's MANIFEST last.
// A file that several nodes have comes from the node of the lowest trainer, and a note says so.
// Snapshots come from the node of the lowest trainer that has any, or from the member `giver`; a
// note says so if that is not the node of trainer 0. No file name from a node leads out of the
// output folder, into the folder of another node's logs, or to a file of paddlectl itself. While a
// node does not answer, the others replace nothing that is here.
// Records on the nodes what was fetched of an ended job. If several programs, on any machines,
// fetch into one folder, they do so one after the other. kResource: the disk here is too small.
Result<FetchStats> fetch_results(Context& context, ClusterSession& session, const std::string& job,
                                 const std::string& output, const std::optional<PassChoice>& passes,
                                 std::optional<std::size_t> giver = {});
// Prints how many snapshots are only on the nodes, and how to fetch them.
void note_left_snapshots(Context& context, const std::string& job, const std::string& output,
                         const FetchStats& stats);

}  // namespace paddle::cli
