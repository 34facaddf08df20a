// Typed calls to the agent on one node. All paths are relative to NodeSpec::root and go through
// SafePath on the node. Blocking; one thread at a time per client. Every error names the node.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/secret.h"
#include "remote/launcher/launcher.h"

namespace paddle::remote {

struct HostFacts {
  std::string os;  // "Debian GNU/Linux 12"
  std::string kernel;
  std::string architecture;  // "x86_64"
  std::string hostname;
  std::uint32_t cores = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t disk_free_bytes = 0;  // where root lives
  std::vector<std::string> gpus;      // names, from /proc/driver/nvidia
  std::string address;                // its own first non-loopback IPv4, or 127.0.0.1
  std::string agent_version;
  std::string root;             // absolute
  std::string glibc = {};       // "2.36"; "": another C library
  std::string gpu_driver = {};  // "535.104.05"; "": none
};

struct PushItem {
  std::string local_path;   // a regular file here
  std::string remote_path;  // below root
  bool executable = false;  // even when it is not here
  std::string link = {};    // then it is a symbolic link to this; local_path is not read
};
struct PushStats {
  std::size_t files = 0, files_sent = 0;    // of files_sent at least a part moved
  std::uint64_t bytes = 0, bytes_sent = 0;  // of content
  std::uint64_t bytes_on_wire = 0;          // compressed, from here
  std::uint64_t bytes_from_nodes = 0;       // of bytes_sent, from other nodes
};
// More content that has to move, and content that has arrived, since the last call. false breaks
// the push off.
using PushProgress = std::function<bool(std::uint64_t planned, std::uint64_t arrived)>;
class PushSource;

// A process under its own supervisor, which outlives paddlectl and the agent.
struct ProcessSpec {
  std::string job;
  std::string name;     // "pserver-0", "trainer-3"; unique in the job on this node
  std::string program;  // below root, e.g. "bin/paddle-<hash>"; "": arguments[0], from PATH or,
                        // with a '/', from `directory`
  // "{root}" is replaced by the absolute root, "{life}" by 1, 2, ... and "{again}" by whether that
  // is not 1.
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;  // likewise; added to PATH, HOME, USER, LANG
  std::string directory;                           // working directory below root
  std::string log;                                 // stdout and stderr, appended, below root
  std::uint32_t restarts = 0;  // after a failure that is not a lost peer's; 0: after none at all
  bool any_exit = false;       // and that may be any exit code but 0 and 75
};

enum class ProcessState {
  kRunning,
  kExited,
  kKilled,
  kLost
};  // kLost: supervisor gone without an exit record
// Of a process and all it started.
struct Usage {
  std::uint64_t resident_bytes = 0;  // now; of one that ended its peak
  std::uint64_t cpu_ms = 0;
  std::optional<std::uint64_t> received_bytes, sent_bytes;  // through its open TCP connections
  std::int64_t last_output_unix_ms = 0;                     // in its log; 0: nothing yet
};
struct ProcessStatus {
  std::string job, name, log;
  ProcessState state = ProcessState::kLost;
  int pid = 0;
  int exit_code = 0;  // kExited
  int signal = 0;     // kKilled
  std::int64_t started_unix_ms = 0, ended_unix_ms = 0;
  std::uint32_t life = 1;              // how often it was started
  bool stopped = false;                // it ended because we asked it to
  std::optional<Usage> usage;          // of AgentClient::status
  std::vector<std::string> arguments;  // likewise
};

struct NodeUsage {
  std::int64_t unix_ms = 0;          // the node's clock
  std::uint64_t received_bytes = 0;  // all interfaces but loopback, since boot
  std::uint64_t sent_bytes = 0;
  std::uint64_t memory_available_bytes = 0;
  std::uint64_t cpu_busy_ms = 0;  // all cores, since boot
};
struct NodeStatus {
  std::vector<ProcessStatus> processes;
  NodeUsage node;
};

struct LogTime {
  std::uint64_t offset = 0;
  std::int64_t unix_ms = 0;  // when the bytes from offset on were written, by the node's clock
};
struct LogChunk {
  std::string data;
  std::uint64_t next_offset = 0;
  std::uint64_t size = 0;      // of the file now
  std::vector<LogTime> times;  // ascending; none where it is not known
};

struct FileEntry {
  std::string path;  // below the listed folder
  std::uint64_t size = 0;
  std::string sha256;  // hex
};

struct FetchItem {
  std::string remote_path;  // below root
  std::string local_path;
};

struct PortStatus {
  std::uint16_t port = 0;
  bool free = true;
  std::string owner;     // "pid 123 (nginx)" when visible
  bool claimed = false;  // not free: another paddlectl starts a job with it
};

// What is there without a job that runs.
struct Leftovers {
  std::vector<std::string> processes;  // "pid 123 (name)", the first of them
  std::size_t process_count = 0;
  std::size_t ended_jobs = 0;  // whose folders are kept
};

enum class ProbeOutcome {
  kReached,
  kRefused,   // the host answers that nobody listens
  kTimedOut,  // nothing answers
  kNoRoute,   // a network, a firewall or the node itself says that there is no way
  kNoProof,   // somebody else listens there
  kStalled    // proven, and then the bytes stopped
};
struct ProbeResult {
  ProbeOutcome outcome = ProbeOutcome::kReached;
  std::string detail = {};  // the system's words, when it is not reached
  Duration round_trip{};    // the shortest
  std::uint64_t bytes_per_second = 0;
};

struct TeardownReport {
  std::size_t processes_ended = 0;
  std::size_t files_removed = 0;
  std::vector<std::string> remaining;  // what could not be removed, and why
};

// A command that ends with the channel, for `paddlectl exec`.
struct CommandSpec {
  std::vector<std::string> arguments;  // argv: no shell sees it
  Duration timeout{};                  // zero: none; then SIGTERM, SIGKILL after a grace
};
struct CommandEnd {
  int exit_code = 0;
  int signal = 0;  // 0: exited
  bool timed_out = false;
};
// What it wrote, as it came: untrusted bytes.
using CommandOutput = std::function<void(std::string_view text, bool is_stderr)>;

struct CopyStats {
  std::uint64_t files = 0, bytes = 0;
  std::uint64_t gone = 0;  // left out, since somebody removed them before it was their turn
};

constexpr Duration kInterruptedEvery = std::chrono::milliseconds(100);

class AgentClient {
 public:
  virtual ~AgentClient() = default;
  virtual const NodeSpec& node() const = 0;
  virtual Result<HostFacts> facts() = 0;

  // Moves only what the node has nowhere in its store: whole small files, chunks of larger ones.
  // Nothing takes its name before all is there, and then each file does at once. Without write
  // access, for the jobs of a node share them. `source` is shared by the nodes of a push, and what
  // several of them lack they give each other where they can: a call that has all returns when the
  // others do. What arrived before an error stays for the next push. keep_only: a folder below
  // root; what an earlier push that named it placed there goes, unless it is among `items`.
  virtual Result<PushStats> push(const std::vector<PushItem>& items, PushSource& source,
                                 const PushProgress& progress, const std::string& keep_only) = 0;
  Result<PushStats> push(const std::vector<PushItem>& items, PushSource& source,
                         const PushProgress& progress) {
    return push(items, source, progress, "");
  }
  virtual Result<std::vector<FileEntry>> list(
      const std::string& folder) = 0;  // recursive, regular files; none if absent
  // One after the other in one stream; each appears whole or not at all. Ends at the first error.
  virtual Status fetch(const std::vector<FetchItem>& items) = 0;
  Status fetch(const std::string& remote_path, const std::string& local_path) {
    return fetch(std::vector<FetchItem>{{remote_path, local_path}});
  }
  virtual Status remove(const std::string& path) = 0;  // a file or a whole folder

  // From here to started() or the end of this client no other session starts the job on this node.
  // kUsage where another one does, or where it has processes; `again` allows those that have ended.
  virtual Status claim_job(const std::string& job, bool again) = 0;
  // Of the job that is claimed: jobs/<job>/key, 0600.
  virtual Status write_secret(const std::string& job, const Secret& secret) = 0;
  virtual Result<std::vector<PortStatus>> check_ports(const std::string& address,
                                                      std::uint16_t first, std::uint16_t count) = 0;
  // Likewise, and as long as a job's name: no other session on that machine gets those ports.
  virtual Result<std::vector<PortStatus>> claim_ports(const std::string& address,
                                                      std::uint16_t first, std::uint16_t count) = 0;
  virtual Status started() = 0;  // the job runs: what this session claims is free again
  virtual Result<Leftovers> leftovers() = 0;
  // From here on the node answers probes there, from whoever knows the token: until stop_listening
  // or the end of this client. kResource when the port is taken.
  virtual Status listen_for_probes(const std::string& address, std::uint16_t port,
                                   const Secret& token) = 0;
  virtual Status stop_listening() = 0;
  // From this node to another that listens; ends within 20 seconds.
  virtual Result<ProbeResult> probe(const std::string& address, std::uint16_t port,
                                    const Secret& token) = 0;
  virtual Status start(const ProcessSpec& process) = 0;
  // Those that have ended are started as they were; one that runs is killed and comes back by its
  // ProcessSpec::restarts. kUsage where that is 0.
  virtual Status restart(const std::string& job, const std::vector<std::string>& names) = 0;
  virtual Result<std::vector<ProcessStatus>> processes(const std::string& job) = 0;  // "": all jobs
  virtual Result<NodeStatus> status(const std::string& job) = 0;  // with what they use
  // SIGTERM to the process groups, SIGKILL after `grace`; returns when none is left. names empty:
  // all of the job.
  virtual Status stop(const std::string& job, const std::vector<std::string>& names,
                      Duration grace) = 0;
  // One SIGTERM to each of these processes, not to what they started; returns at once.
  virtual Status ask_to_stop(const std::string& job, const std::vector<std::string>& names) = 0;
  // since_unix_ms: and nothing known to be written before it; 0: whatever is there.
  virtual Result<LogChunk> read_log(const std::string& path, std::uint64_t offset,
                                    std::uint32_t max_bytes, std::int64_t since_unix_ms = 0) = 0;

  // Runs it in a session of its own, in $HOME with an empty stdin; `interrupted` (asked every
  // kInterruptedEvery) ends it and all of that session, and so does the end of this client.
  virtual Result<CommandEnd> run(const CommandSpec& command, const CommandOutput& output,
                                 const std::function<bool()>& interrupted) = 0;
  // Between our folder and the rest of the node; `outside` may be relative to $HOME. export_to puts
  // every entry of the folder `inside` into the folder `outside`, or one file at that name when no
  // folder is there and no '/' ends it. import_from makes the new folder `inside` with `outside`.
  virtual Result<CopyStats> export_to(const std::string& inside, const std::string& outside) = 0;
  virtual Result<CopyStats> import_from(const std::string& outside, const std::string& inside) = 0;

  // Ends every process of ours below root and removes root itself. The agent exits afterwards.
  virtual Result<TeardownReport> teardown(bool keep_data) = 0;
};

struct ConnectOptions {
  std::string agent_binary;  // paddlectl-agent beside paddlectl
  Duration deadline = std::chrono::seconds(20);
  bool create = true;      // false: a node that has no folder of ours is left as it is
  Login* login = nullptr;  // null: keys only
};
// Launches the node's shell, pushes the agent when its hash is not there yet, starts it and waits
// for its sentinel. Null when there is no folder of ours and none may be made. kVersion names a
// node whose architecture differs before anything is pushed.
Result<std::unique_ptr<AgentClient>> connect(const NodeSpec& node, const ConnectOptions& options);

}  // namespace paddle::remote
