// Typed calls to the agent on one node. Paths are relative to NodeSpec::root and checked by
// SafePath on the node. Calls block; a client is for one thread at a time. Every error names the
// node. Answers that are messages of agent.proto have printable texts, whatever the node sent.
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
#include "proto/command_order.h"
#include "remote/client/push_source.h"
#include "remote/client/streamed_calls.h"
#include "remote/launcher/launcher.h"

namespace paddle::wire::agent {
class CopyReply;
class Facts;
class LeftoversReply;
class TeardownReply;
}  // namespace paddle::wire::agent

namespace paddle::remote {

// Successive TCP ports of an address.
struct PortRange {
  std::string address;
  std::uint16_t first = 0, count = 0;
};

// Numbered as in agent.proto.
enum class VariableSource { kPaddlectl, kCommandLine, kClusterFile, kNode };
struct Variable {
  std::string name, value;
  VariableSource source = VariableSource::kPaddlectl;
};

// The command of [notify] for a process, as in agent.proto.
struct NotifyCommand {
  std::vector<std::string> arguments;  // with the placeholder {root}; empty: none
  std::vector<std::string> events;     // "done", "failed", ...
  std::uint64_t timeout_ms = 0;
  std::uint64_t stalled_ms = 0;
  std::string cluster, node;            // their names
  bool speaks_for_job = false;          // trainer 0
  bool speaks_for_lost = false;         // trainer 0 and pserver 0
  std::vector<std::string> witness_of;  // how errors name the processes of their nodes
};

// The specification of a process. A supervisor of its own runs it, which outlives paddlectl and the
// agent.
struct ProcessSpec {
  std::string job;
  std::string name;     // "pserver-0", "trainer-3"; unique in the job on this node
  std::string program;  // below root, e.g. "bin/paddle-<hash>"; "": arguments[0], from PATH or,
                        // with a '/', from `directory`
  // "{root}" stands for the absolute root, "{incarnation}" for the number of this start, from 1,
  // "{again}" for "true" from the second start on, else "false".
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;  // same placeholders; overrides the node's
  std::map<std::string, std::string> defaults;     // same placeholders; where both lack it
  // Same placeholders; each comes first in its variable, before ':' and the value from elsewhere.
  std::map<std::string, std::string> first_folders;
  std::map<std::string, VariableSource> sources;  // by name in `environment`; default: kPaddlectl
  std::string directory;                          // working directory below root
  std::string log;                                // stdout and stderr, appended, below root
  std::uint32_t restarts = 0;  // maximum after failures other than a lost peer; 0: never
  bool any_exit = false;       // exit codes other than 0 and 75 count as failures too
  std::uint64_t hang_ms = 0;   // a process that hangs for longer is killed and has failed; 0: never
  bool keeps_memory = false;   // the successive runs of the process share memory
  std::uint32_t trainers = 0, pservers = 0;  // totals of the job, on all nodes
  std::uint64_t run = 0;         // number of this run of the job; greater than each earlier one
  std::vector<PortRange> ports;  // reserved while the process runs, open or not
  NotifyCommand notify = {};
};

// kUsage: the specification does not fit into one request.
Status check_size(const ProcessSpec& process);

// A command that is working on a job; it claims the job on the nodes of that job.
struct JobClaim {
  JobCommand command = JobCommand::kTrain;
  std::string who = {};      // "alice@laptop, pid 12"
  std::string process = {};  // for kRestartProcess
  std::string phase = {};    // "pushes files"
};

// Numbered as in agent.proto. kLost: the supervisor is gone without an exit record.
enum class ProcessState { kRunning, kExited, kKilled, kLost };
// A process's latest notice about itself, numbered as in supervision.proto.
enum class Phase { kStarting, kReady, kStopping, kFailed };
// Resources used by a process and its descendants.
struct Usage {
  std::uint64_t resident_bytes = 0;  // current; the peak of an ended process
  std::uint64_t cpu_ms = 0;
  std::optional<std::uint64_t> received_bytes, sent_bytes;  // through its open TCP connections
  std::int64_t last_output_unix_ms = 0;                     // in its log; 0: nothing yet
};
enum class Activity { kTraining, kTesting, kSaving };
// A process's latest report about itself, as in supervision.proto.
struct Progress {
  std::int64_t unix_ms = 0;  // by the node's clock
  // Trainers only: the fields from here to `batch_ms`, and `activity`.
  std::uint32_t pass = 0, passes = 0;
  std::optional<double> pass_done;  // fraction of the pass that is trained, 0 to 1
  double cost = 0, examples_per_second = 0;
  bool has_cost = true;  // false: a user's own program, which writes no cost
  // Typical speed without the time spent waiting for other processes; 0: not known.
  double examples_per_busy_second = 0;
  std::uint64_t batch = 0, batch_ms = 0;
  std::uint64_t updates = 0;  // pservers only: batches applied since the start
  Activity activity = Activity::kTraining;
  // Trainers that other processes wait for or, in the report of a trainer, that it waits for
  // itself.
  std::vector<std::string> awaited;
  // Index of each peer whose heartbeats are missing -> for how long. The peers of a pserver are
  // trainers, the peers of a trainer are pservers.
  std::map<std::uint32_t, std::int64_t> missed_ms;
  std::string save_failure;  // trainer 0 only: why the latest snapshot was not saved, or ""
  // Trainer 0 only: the older snapshot that this run continues from, and why: "pass-00001, since
  // pass-00002 is damaged: ...". "": the newest one.
  std::string restored_from;
};
// The end of one run of a process, after which the process was started again.
struct Restart {
  int exit_code = 0;
  int signal = 0;  // 0: exited
  std::int64_t ended_unix_ms = 0;
  std::uint32_t failures = 0;  // own failures so far, this one included; 0: it lost a peer
  std::string hang = {};       // why it was killed as hung: "no response for 60 s"; "": it was not
  std::uint64_t out_of_memory_bytes = 0;  // as in a ProcessStatus
  std::uint32_t incarnation = 0;          // number of the run that ended; rises with each restart
  std::int64_t age_ms = 0;  // time since the end, unaffected by changes of the node's clock
  bool ordered = false;     // by `paddlectl restart`; no failure
};
struct ProcessStatus {
  std::string job, name, log;
  ProcessState state = ProcessState::kLost;
  int pid = 0;
  int exit_code = 0;  // kExited
  int signal = 0;     // kKilled
  std::int64_t started_unix_ms = 0, ended_unix_ms = 0;
  std::uint32_t incarnation = 1;  // number of starts
  bool stopped = false;           // ended as a stop request demanded, not by a failure
  std::string stopped_by = {};  // "paddlectl stop of alice@laptop, pid 12", or "" without a request
  bool stop_ordered = false;    // the request was to end at once, without saving
  std::string hang = {};        // why it was killed as hung: "no response for 60 s"; "": it was not
  Phase phase = Phase::kStarting;      // always kStarting for the user's own programs
  std::optional<Error> failure;        // the cause as the process reported it; only with kFailed
  std::optional<Usage> usage;          // set by AgentClient::status
  std::vector<std::string> arguments;  // set by AgentClient::status
  // The process's CUDA_VISIBLE_DEVICES, FLAGS_selected_gpus and NCCL_* variables, by name; set by
  // AgentClient::status.
  std::vector<Variable> gpu_variables = {};
  std::optional<Progress> progress;  // empty before the first report, and for a user's own program
  std::int64_t asked_unix_ms = 0;    // the node's clock at the time of this status
  // Ages by the node's monotonic clock.
  std::int64_t silent_ms = 0;                 // since `progress` was reported
  std::optional<std::int64_t> notice_age_ms;  // since its last notice; empty: none received yet
  std::vector<Restart> restarts = {};         // the latest ones
  std::uint32_t restarts_allowed = 0;
  bool reports = false;                      // one of our programs, which report progress
  bool claimed = false;                      // a paddlectl is starting processes of its job
  std::vector<JobClaim> claims = {};         // all commands that are working on its job
  std::uint32_t trainers = 0, pservers = 0;  // totals of the job, on all nodes
  std::uint64_t run = 0;              // number of the job's run; greater than each earlier one
  std::vector<PortRange> ports = {};  // as in its ProcessSpec
  // Resident bytes when the kernel killed the process for lack of memory; 0: it did not.
  std::uint64_t out_of_memory_bytes = 0;
};

struct NodeUsage {
  std::int64_t unix_ms = 0;          // the node's clock
  std::uint64_t received_bytes = 0;  // all interfaces but loopback, since boot
  std::uint64_t sent_bytes = 0;
  std::uint64_t memory_available_bytes = 0;
  std::uint64_t cpu_busy_ms = 0;  // all cores, since boot
};
// Distinguishes a node from another one that later has its name. An empty field is not known.
struct NodeIdentity {
  std::string folder;   // made once, with the node's folder
  std::string machine;  // the boot of the machine, and of the container if the node is one

  bool operator==(const NodeIdentity&) const = default;
};
struct NodeStatus {
  std::vector<ProcessStatus> processes;
  NodeUsage node;
};

struct LogTime {
  std::uint64_t offset = 0;
  std::int64_t unix_ms = 0;  // time of writing of the bytes from offset on, by the node's clock
};
struct FilePart {
  std::string data;
  std::uint64_t next_offset = 0;
  std::uint64_t size = 0;      // offset of the file's end
  std::vector<LogTime> times;  // ascending; empty for a file that is no log, or when unknown
};

struct PortStatus {
  std::uint16_t port = 0;
  bool free = true;
  std::string owner;  // if visible "pid 123 (nginx)"; of a claimed port "paddlectl-agent, pid 12"
  bool claimed = false;  // by another paddlectl that is starting a job; then not free
};

struct WantedClaim {
  std::string job;
  JobClaim claim;
  bool fresh = false;  // fails with kUsage if a process of the job is recorded
  bool idle = false;   // fails with kUsage if a process of the job runs
};

// Numbered as in agent.proto.
enum class ProbeOutcome {
  kReached,
  kRefused,   // the host refused the connection: no listener
  kTimedOut,  // no answer
  kNoRoute,   // a router, a firewall or the node itself reports no route
  kNoProof,   // the listener does not have the key
  kStalled    // the listener proved its key, then the transfer stalled
};
struct ProbeResult {
  ProbeOutcome outcome = ProbeOutcome::kReached;
  std::string detail = {};  // the system's error text unless kReached
  Duration round_trip{};    // the shortest of several
  std::uint64_t bytes_per_second = 0;
};

class AgentClient {
 public:
  virtual ~AgentClient() = default;
  virtual const NodeSpec& node() const = 0;
  // Sets the deadline of later answers; some kinds of request have a fixed deadline instead.
  virtual void set_patience(Duration) {}
  // Sets a function that is called every kInterruptedEvery while fetch(), export_to() and
  // import_from() wait. Once it returns true they fail with kInterrupted, and so does every later
  // call.
  virtual void set_interrupted(const std::function<bool()>& /*interrupted*/) {}
  virtual Result<wire::agent::Facts> facts() = 0;

  // Sends only what the node's store lacks: whole small files, chunks of larger ones. Files appear
  // under their names once all content is there, each atomically, and read-only, because the jobs
  // of a node share them. The nodes of a push share `source` and exchange content among each other
  // where they can; a call whose node is complete still waits for the other nodes. Content that
  // arrived before an error is kept for the next push. keep_only: a folder below root; files in it
  // that earlier pushes with this folder placed are removed unless they are among `items`.
  virtual Result<PushStats> push(const std::vector<PushItem>& items, PushSource& source,
                                 const PushProgress& progress, const std::string& keep_only) = 0;
  Result<PushStats> push(const std::vector<PushItem>& items, PushSource& source,
                         const PushProgress& progress) {
    return push(items, source, progress, "");
  }
  // Regular files, recursively; none when the folder is absent.
  virtual Result<std::vector<FileEntry>> list(const std::string& folder) = 0;
  // list() without hashes: reads no file.
  virtual Result<std::vector<FileEntry>> list_sizes(const std::string& folder) = 0;
  // list_sizes() with the links, the empty folders and the names with control characters too.
  virtual Result<std::vector<FileEntry>> list_all_kinds(const std::string& folder) = 0;
  // The files in `folder` itself, with hashes, without those in its subfolders.
  virtual Result<std::vector<FileEntry>> list_own_files(const std::string& folder) = 0;
  // Fetches the items in order and stops at the first error. A file appears once all its content is
  // verified against the listed hash, or not at all.
  virtual Status fetch(const std::vector<FetchItem>& items) = 0;
  virtual Status remove(const std::string& path) = 0;  // a file or a whole folder
  // Renames a file or a whole folder. kResource when something named `to` exists.
  virtual Status move(const std::string& from, const std::string& to) = 0;

  // Claims the job on this node until release_job(), started() or the end of this client; replaces
  // an earlier claim that this client has on it. When claims of other commands conflict with it,
  // returns those and changes nothing. kUsage for processes that `wanted` forbids, kFailed when
  // `stop --now` has revoked the earlier claim.
  virtual Result<std::vector<JobClaim>> claim_job(const WantedClaim& wanted) = 0;
  virtual Status release_job(const std::string& job) = 0;
  // Writes jobs/<job>/keys/<process>, mode 0600. REQUIRES: a claim of the job by a command that
  // starts processes.
  virtual Status write_keys(const std::string& job, const std::string& process, ByteSpan keys) = 0;
  virtual Result<std::vector<PortStatus>> check_ports(const std::string& address,
                                                      std::uint16_t first, std::uint16_t count) = 0;
  // check_ports() that also locks the free ports against other sessions on that machine. The locks
  // last as long as a claim of a job.
  virtual Result<std::vector<PortStatus>> claim_ports(const std::string& address,
                                                      std::uint16_t first, std::uint16_t count) = 0;
  virtual Status started() = 0;  // releases this session's claims: the job runs
  virtual Result<wire::agent::LeftoversReply> leftovers() = 0;
  // Answers probes of callers that have a key derived from the token, until stop_listening() or the
  // end of this client. kResource when the port is taken.
  virtual Status listen_for_probes(const std::string& address, std::uint16_t port,
                                   const Secret& token) = 0;
  virtual Status stop_listening() = 0;
  // Probes another node, which listens with the token, from this one; ends within 20 seconds. This
  // node receives only the key of `caller`, not the token. A listener ends a call when another one
  // with the same `caller` arrives.
  virtual Result<ProbeResult> probe(const std::string& address, std::uint16_t port,
                                    const Secret& token, std::uint32_t caller) = 0;
  virtual Status start(const ProcessSpec& process) = 0;
  // Starts ended processes again with their old specification. Kills running ones, which their
  // supervisors then start again; kUsage when their ProcessSpec::restarts is 0. REQUIRES: a claim
  // of the job by a command that starts processes.
  virtual Status restart(const std::string& job, const std::vector<std::string>& names) = 0;
  virtual Result<std::vector<ProcessStatus>> processes(const std::string& job) = 0;  // "": all jobs
  virtual Result<NodeStatus> status(const std::string& job) = 0;  // with resource usage
  // As the last answer about processes had it; nothing is known before.
  virtual NodeIdentity identity() const { return {}; }
  // Sends SIGTERM to the process groups, and SIGKILL after `grace`; returns when no process is
  // left. names empty: all processes of the job.
  virtual Status stop(const std::string& job, const std::vector<std::string>& names,
                      Duration grace) = 0;
  // Sends SIGTERM to each of these processes, but not to its children, unless its stop was
  // requested before; returns at once.
  virtual Status ask_to_stop(const std::string& job, const std::vector<std::string>& names) = 0;
  // Reads a part of a file below root. A log that was rotated is one file, whose offsets never
  // decrease. since_unix_ms: skips bytes that are known to be written earlier; 0: skips nothing.
  virtual Result<FilePart> read_file(const std::string& path, std::uint64_t offset,
                                     std::uint32_t max_bytes, std::int64_t since_unix_ms = 0) = 0;
  // Reads a file with as many requests as it needs. Empty if it cannot be read, or is longer than
  // `bytes_max`.
  std::optional<std::string> read_whole_file(const std::string& path, std::size_t bytes_max);

  // Runs a command in a session of its own, in $HOME, with an empty stdin. The session is ended
  // when `interrupted` (polled every kInterruptedEvery) returns true, and with this client.
  virtual Result<CommandEnd> run(const CommandSpec& command, const CommandOutput& output,
                                 const std::function<bool()>& interrupted) = 0;
  // Copies between our folder and the rest of the node; `outside` may be relative to $HOME. The
  // contents of files are in the folder `inside`. export_to writes the tree into the folder
  // `outside`; a tree of one file is written to that name itself if it is no folder and has no '/'
  // at its end. import_from creates the folder `inside` with the contents of `outside` and appends
  // the entries to the tree: names are safe and printable, and each folder precedes its entries.
  virtual Result<wire::agent::CopyReply> export_to(const CopyTree& tree, const std::string& inside,
                                                   const std::string& outside) = 0;
  virtual Result<wire::agent::CopyReply> import_from(const std::string& outside,
                                                     const std::string& inside, CopyTree& tree) = 0;

  // Ends all our processes below root and removes root itself. The agent exits afterwards.
  virtual Result<wire::agent::TeardownReply> teardown(bool keep_data) = 0;
};

// A finished request to change a node, to run a program there or to fetch files from it.
struct NodeAction {
  std::string job;  // "": no job. A push belongs to the job of its folder, or of its first file
  // "start trainer-0": at most the name of a program and paths, never an argument, a value or a
  // key.
  std::string text;
  int exit_code = 0;  // the program's own; else that of paddlectl, 0 if the request succeeded
};
using OnAction = std::function<void(const NodeSpec&, const NodeAction&)>;

struct ConnectOptions {
  std::string agent_binary;  // paddlectl-agent beside paddlectl
  Duration deadline = std::chrono::seconds(20);
  bool create = true;       // false: leaves a node without our folder as it is
  Login* login = nullptr;   // null: keys only
  OnAction on_action = {};  // called for each action, on the thread of the request
};
// Opens a shell on the node, pushes the agent unless it is there already (by hash), starts it and
// waits for its sentinel. Null when our folder is absent and `create` is false. kVersion when the
// node's architecture differs; nothing is pushed then.
Result<std::unique_ptr<AgentClient>> connect(const NodeSpec& node, const ConnectOptions& options);

// Returns the names of other nodes of the cluster that have their folders on this node's machine;
// such a node was renamed, or removed from the cluster file. "." stands for a folder of an earlier
// release, which used one per machine.
Result<std::vector<std::string>> folders_beside(const NodeSpec& node,
                                                const ConnectOptions& options);

// Returns NodeIdentity::machine of a node that has no agent; "" if its system does not show it.
Result<std::string> machine_of(const NodeSpec& node, const ConnectOptions& options);

}  // namespace paddle::remote
