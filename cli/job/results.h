// Logs and snapshots of a job, fetched into its output folder here: the folder with its lock and
// the room on its disk, the fetch, and the record of it that the nodes keep.
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
#include "remote/agent_client.h"

namespace paddle::cli {

// A path as output shows it: relative where it is below the current directory, absolute in JSON.
std::string shown_path(const Context& context, const std::string& path);

// Makes a folder at or below `base`, with its parents; kResource with `hint` where that cannot be
// done, kData where there is a link on the way from `base`, or a folder of somebody else: who sent
// the workspace, or may write to the current directory, may have put it there.
Status make_folder(const std::filesystem::path& base, const std::filesystem::path& folder,
                   const std::string& hint);
// Likewise <output>/<job>. Where that is below the current directory, so must all of it be. kAuth
// where others could exchange a folder on the way: nothing is written below it then.
Result<std::filesystem::path> make_output_folder(const Context& context, const std::string& output,
                                                 const std::string& job, const std::string& hint);

// One paddlectl at a time in a job's output folder. Others wait, and then find what the first one
// brought.
// Until the end of this object, or of the program, no other program has the folder. It ends with a
// program that is killed: the kernel keeps it, and the file that is left counts for nothing.
class OutputLock {
 public:
  // Waits for the process that holds the lock, and names it. kInterrupted after Ctrl-C. A file
  // system that is read-only or has no locks is no error: the folder stays unlocked then, and files
  // still appear whole, since each is written under another name first.
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
  // `shown` names the folder, which need not be there yet, in errors.
  DiskRoom(const std::filesystem::path& folder, std::string shown);

  // Takes room for the files of a node, before the first byte of them comes. kResource, with the
  // node and the largest of them, when that is more than is left.
  Status reserve(const std::string& node, const std::vector<remote::FetchItem>& files);
  std::uint64_t free_bytes() const { return free_; }
  std::uint64_t reserved_bytes() const { return reserved_; }

 private:
  const std::string shown_;
  std::uint64_t free_;  // when this command began
  std::mutex mutex_;
  std::uint64_t reserved_ = 0;
};

// The results that were fetched from a node: a record beside the job on that node, from which
// teardown and rm know, on any machine, what would be lost.
struct FetchRecord {
  std::int64_t started_unix_ms = 0;            // latest_start() at the time of the fetch
  std::map<std::string, std::uint64_t> sizes;  // by path below output/
};

// When the last of the job's processes on that node started; 0: it has none. A start after the
// fetch makes the record void, for files may have changed since.
std::int64_t latest_start(const std::vector<ProcessOnNode>& processes, std::size_t member,
                          const std::string& job);

// Empty where nothing was fetched, or before `started_unix_ms`.
FetchRecord read_fetch_record(remote::AgentClient& client, const std::string& job,
                              std::int64_t started_unix_ms);
// Written through a file in the local folder.
Status write_fetch_record(remote::AgentClient& client, const std::string& job,
                          const FetchRecord& record, const std::string& folder);

struct FetchStats {
  std::size_t files = 0, files_fetched = 0;
  std::vector<std::string> left;     // snapshots that were not asked for and stay on the nodes
  std::vector<std::string> missing;  // those of them that are not here from an earlier fetch
  std::uint64_t missing_bytes = 0;
};

// Fetches logs, files that the job's own program saved, and the snapshots of `passes` with those
// they are deltas of, into <output>/<job>/{node_<i>/..., pass-0000N/...}; without `passes` logs
// alone. Says how much before it starts; kResource when the disk here is too small for it. Every
// file is compared with the SHA-256 that its node listed before it gets its name. Skips files that
// are here with the same SHA-256, and fetches a snapshot's MANIFEST last. A file that several nodes
// have comes from the node of the lowest trainer, and a note says so. No file name from a node
// leads out of that folder, into the folder of another node's logs, or to a file of paddlectl's
// own; while a node does not answer, the others replace nothing that is here. What was fetched of
// an ended job is recorded on its nodes. Snapshots come from the node of the lowest trainer that
// has any, or from the member `giver`; a note says so when that is not the node of trainer 0. Of
// several programs that fetch into one folder, on any machine, one does so at a time.
Result<FetchStats> fetch_results(Context& context, ClusterSession& session, const std::string& job,
                                 const std::string& output, const std::optional<PassChoice>& passes,
                                 std::optional<std::size_t> giver = {});
// Says how many snapshots are on the nodes alone, and how to fetch them.
void note_left_snapshots(Context& context, const std::string& job, const std::string& output,
                         const FetchStats& stats);

}  // namespace paddle::cli
