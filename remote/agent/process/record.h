// A process's record on disk: jobs/<job>/proc/<name>/{spec,pid,exit,notice,restarts,gpus}. It
// outlives agent and supervisor.
#pragma once

#include <sys/resource.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "proto/agent.pb.h"
#include "remote/agent/node/proc.h"
#include "remote/agent/node/root.h"

namespace paddle::agent {

// The environment variable of every process that we start, inherited by its children:
// "<root>:<job>/<name>".
constexpr const char* kProcessVariable = "PADDLECTL_PROCESS";
std::string process_mark(const Root& root, const std::string& job, const std::string& name);
// The name in the mark of a command of [notify] that this supervisor runs for `process`. A stop of
// the process does not end the command, and other supervisors do not take it for theirs.
std::string notify_name(const std::string& process, pid_t supervisor);
// The running commands of [notify], and what they have started, under any supervisor. `label`:
// "<job>/" or "<job>/<process>/".
std::vector<ProcStat> notices_of(const Root& root, const std::string& label);

struct Record {
  wire::agent::ProcessSpec spec;
  wire::agent::PidRecord pid;
  std::optional<wire::agent::ExitRecord> exit;
  std::optional<wire::Notice> notice;  // the latest one of the current run
  std::optional<wire::agent::Restarts> restarts;
};

// On a full disk `incarnation`, `pid`, `exit`, `notice` and `stop` use the space of
// reserve_records(). While the disk accepts no write at all, because it is read-only or has failed,
// these files and `restarts` are written to the memory that the process's supervisor keeps.
Status write_record(const Root& root, const SafePath& folder, const char* file,
                    const google::protobuf::MessageLite& message);
// Creates the memory for the records of a process. A supervisor creates it before it records its
// process, and it and its guard keep it open. Other processes of the user find it through `pid`.
Result<UniqueFd> make_record_memory();
// Writes the records in memory to the disk. False if some of them have to stay in memory.
bool move_records_to_disk(const Root& root, const SafePath& folder, const std::string& job);
// Whether only the memory of its supervisor contains how the process ended.
bool is_end_in_memory(const Root& root, const SafePath& folder);
// Reserves disk space for these five files, so that a disk that becomes full cannot make the
// process look lost. Best effort.
void reserve_records(const Root& root, const SafePath& folder);
// Writes the number of a start before that start, so that no two starts get the same number.
Status write_incarnation(const Root& root, const SafePath& folder, std::uint32_t incarnation);
// Records the calling process as the supervisor of `child`. `guard`: the supervisor's guard;
// without a pid: none. REQUIRES: the caller has not waited for `child` yet.
Status write_pid(const Root& root, const SafePath& folder, pid_t child, std::uint32_t incarnation,
                 const ProcStat& guard);
// Records the GPU variables of the run that begins. Best effort.
void write_gpus(const Root& root, const SafePath& folder, const wire::agent::GpuVariables& gpus);
wire::agent::GpuVariables read_gpus(const Root& root, const wire::agent::ProcessSpec& spec);
// The record of a process that has just ended.
wire::agent::ExitRecord exit_record(int wait_status, const rusage& used);
// Adds the end of a run, after which the process is started again, to the file `restarts`. The
// caller sets the failures and the known cause in `restart`; the time, exit code and signal are set
// here.
Status add_restart(const Root& root, const SafePath& folder, int wait_status,
                   wire::agent::Restart restart);
// How often the process of this folder has been started.
std::uint32_t last_incarnation(const Root& root, const SafePath& folder);
bool has_record(const Root& root, const SafePath& folder, const char* file);
// The request of `paddlectl stop` for a process. kSave: save and exit; kNow: end at once.
enum class StopMode { kNone, kSave, kNow };
StopMode requested_stop(const Root& root, const SafePath& folder);
// The whole request; an empty one if there is none.
wire::agent::StopRequest read_stop_request(const Root& root, const SafePath& folder);
// Replaces a weaker request.
Status write_stop_request(const Root& root, const SafePath& folder,
                          const wire::agent::StopRequest& request);
// Locks the stop requests of a job. An agent holds the lock from reading the pids of the job until
// it has recorded its request and sent the signals; a supervisor holds it from recording a new pid
// until it has read the request. So a process that is asked to save receives one SIGTERM, even if
// several agents ask at the same time: a second SIGTERM would end it before it has saved. Empty if
// the lock cannot be taken.
UniqueFd lock_stop_requests(const Root& root, const std::string& job);
// Records that `paddlectl restart` ends the run with the number `incarnation`: the process is then
// started again, and the end does not count as a failure of its own.
Status write_restart_order(const Root& root, const SafePath& folder, std::uint32_t incarnation);
bool is_restart_ordered(const Root& root, const SafePath& folder, std::uint32_t incarnation);
// Whether no process of the job on this node has claimed the event within `interval`; claims it.
// The file jobs/<job>/events/<event> keeps the time of the latest claim.
bool claim_event(const Root& root, const std::string& job, std::string_view event,
                 Duration interval);
// The event of claim_event() for a failure: one notice from each node and run of the job.
std::string failed_event(const wire::agent::ProcessSpec& spec);
// Forgets the claims of an event.
void forget_event(const Root& root, const std::string& job, std::string_view event);
void remove_record(const Root& root, const SafePath& folder, const char* file);
// Empties the notice before the next run. The file stays, because its disk space is reserved for
// the next notice.
void forget_notice(const Root& root, const SafePath& folder);

// Empty for a process that was never started.
std::optional<Record> read_record(const Root& root, const std::string& job,
                                  const std::string& name);
// All records of a job, or of all jobs when job is empty. Unreadable ones are skipped.
Result<std::vector<Record>> read_records(const Root& root, const std::string& job);

wire::agent::ProcessStatus status_of(const Root& root, Record record);
// True if the supervisor runs, or its guard, which is about to start another supervisor.
bool supervisor_alive(const Record& record);
// The process and its descendants, without the supervisor and its guard.
std::vector<ProcStat> members_of(const Root& root, const std::vector<Record>& records);
// The supervisors that run, and their guards.
std::vector<ProcStat> supervisors_of(const std::vector<Record>& records);

}  // namespace paddle::agent
