// A process's record on disk: jobs/<job>/proc/<name>/{spec,pid,exit,notice,restarts,gpus}. It
// outlives agent and supervisor.
#pragma once

#include <sys/resource.h>

#include <optional>
#include <vector>

#include "proto/agent.pb.h"
#include "remote/agent/machine/proc.h"
#include "remote/agent/root/root.h"

namespace paddle::agent {

// The environment variable of every process that we start, inherited by its children:
// "<root>:<job>/<name>".
constexpr const char* kProcessVariable = "PADDLECTL_PROCESS";
std::string process_mark(const Root& root, const std::string& job, const std::string& name);

struct Record {
  wire::agent::ProcessSpec spec;
  wire::agent::PidRecord pid;
  std::optional<wire::agent::ExitRecord> exit;
  std::optional<wire::Notice> notice;  // the latest of the current life
  std::optional<wire::agent::Restarts> restarts;
};

// On a full disk `life`, `pid`, `exit`, `notice` and `stop` take the room of reserve_records().
// Where the disk takes nothing at all, because it can only be read or has failed, they and the
// others about a process that runs go to the job's folder in memory, until it does.
Status write_record(const Root& root, const SafePath& folder, const char* file,
                    const google::protobuf::MessageLite& message);
// Takes disk space for these, so that a disk that becomes full cannot make the process look
// lost. Best effort.
void reserve_records(const Root& root, const SafePath& folder);
// Written before a start, so that no two starts get the same number.
Status write_life(const Root& root, const SafePath& folder, std::uint32_t life);
// The calling process as the supervisor of `child`, which it has not waited for. `guard`: its own,
// or one without a pid.
Status write_pid(const Root& root, const SafePath& folder, pid_t child, std::uint32_t life,
                 const ProcStat& guard);
// The GPU variables of the life that begins. Best effort.
void note_gpus(const Root& root, const SafePath& folder, const wire::agent::GpuVariables& gpus);
wire::agent::GpuVariables gpus_of(const Root& root, const wire::agent::ProcessSpec& spec);
// Of a process that has ended now.
wire::agent::ExitRecord exit_record(int wait_status, const rusage& used);
// Notes in the file `restarts` an end that another start follows. `restart` has its failures and
// what the supervisor knows of its cause; time and kind of the end are filled in.
Status add_restart(const Root& root, const SafePath& folder, int wait_status,
                   wire::agent::Restart restart);
// How often a process of this name has been started in the job.
std::uint32_t lives_of(const Root& root, const SafePath& folder);
bool has_record(const Root& root, const SafePath& folder, const char* file);
// The wish of `paddlectl stop`: the end of a process, or first that it saves and ends by itself.
enum class StopWish { kNone, kAsked, kOrdered };
StopWish stop_wish(const Root& root, const SafePath& folder);
// Replaces a weaker wish. `by`: as in a StopRequest.
Status write_stop_wish(const Root& root, const SafePath& folder, StopWish wish,
                       const std::string& by);
// Held by an agent from its look at the pids of a job until it has noted its wish and sent the
// signals, and by a supervisor from the note of a new pid until its look at the wish: so a process
// that is asked to save gets one SIGTERM, whoever asks at the same time. A second one would end it
// before it has saved. Empty where nothing can be locked.
UniqueFd lock_stop_wishes(const Root& root, const std::string& job);
// The order of `paddlectl restart`: that life of the process ends, and the next one begins. It is
// no failure of its own.
Status write_restart_order(const Root& root, const SafePath& folder, std::uint32_t life);
bool is_restart_ordered(const Root& root, const SafePath& folder, std::uint32_t life);
void remove_record(const Root& root, const SafePath& folder, const char* file);
// Before another life. The file stays, as the room of the next notice.
void forget_notice(const Root& root, const SafePath& folder);

// Empty for a process that was never started.
std::optional<Record> read_record(const Root& root, const std::string& job,
                                  const std::string& name);
// All records of a job, or of all jobs when job is empty. Unreadable ones are skipped.
Result<std::vector<Record>> read_records(const Root& root, const std::string& job);

wire::agent::ProcessStatus status_of(const Root& root, Record record);
// Its supervisor lives, or the guard that is about to start another.
bool supervisor_alive(const Record& record);
// The process and its descendants, without the supervisor and its guard.
std::vector<ProcStat> members_of(const Root& root, const std::vector<Record>& records);
// Those that live, and their guards.
std::vector<ProcStat> supervisors_of(const std::vector<Record>& records);

}  // namespace paddle::agent
