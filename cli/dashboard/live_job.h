// A job that is looked at live: its current state, and on demand the record that its page shows,
// read from its nodes piece by piece. No byte of a file is read or parsed twice.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"
#include "cli/dashboard/kept_metrics.h"
#include "cli/report/events.h"
#include "cli/report/job_json.h"
#include "cli/report/record.h"
#include "cli/watch/log_reader.h"
#include "cli/watch/view.h"

namespace paddle::cli {

// Log points in memory for a job, of all its processes together, and for one process.
constexpr std::size_t kJobPointsMax = 100'000;
constexpr std::size_t kProcessPointsMax = 2'000;
// Bytes of its lines of metrics in memory, roughly.
constexpr std::size_t kJobBytesMax = 128U << 20U;
// The bytes that one round reads of a file; the rest follows in the next rounds.
constexpr std::size_t kRoundBytesMax = 1U << 20U;
// Events are looked for in the last bytes of a process's log.
constexpr std::uint64_t kLogEventsBytes = 1U << 20U;

class LiveJob {
 public:
  explicit LiveJob(std::string job) : name_(std::move(job)), view_(name_) {}

  // Whether a viewer wants the whole record. At first, and after a change to false, the record is
  // empty; the current state is known in any case.
  void want_record(bool wanted);
  bool has_record() const { return wants_record_; }

  // A round: begin(), read() for each connected member, take(). `processes`: of this job, on the
  // nodes that have answered.
  void begin(const std::vector<ProcessOnNode>& processes);
  // Reads what is new in the files of the member's processes. May be called for several members at
  // the same time. kUnreachable: the node does not answer; else files that cannot be read are left
  // out. `machine`: the member's.
  Status read(Member& member, std::size_t index, const MachineRecord& machine);
  // `look`: with the processes given to begin(). `machines`: by member; without a name if not
  // known. `output`: the folder of results on this machine, for the commands that started the job.
  void take(Context& context, ClusterSession& session, ClusterLook look,
            const std::vector<MachineRecord>& machines, const std::string& output);

  // Whether the files have more than the last round has read.
  bool has_more() const;
  // The job's JSON (cli/report/job_json.h), with "live" and with "now" in its processes:
  //   live  {running, stalls: sentences, left_ms, loss, broken_start: texts, diverged_to,
  //         unreachable: nodes, failure: {process, cause, hint, lines: the last of its log}}; null
  //         where there is nothing
  //   now   {state, is_fault, waits_for: the first process it waits for, or "", pass, pass_done,
  //         batch, cost, rate, heard_ms, cores, memory_bytes, in_per_s, out_per_s}; null where not
  //         known
  Json::Fields fields() const;
  // The same keys for a job without its record: empty but for "live", where `why` is the only
  // sentence of "stalls".
  Json::Fields fields_without_record(const std::string& why) const;
  // An object of the list "jobs": {job, state, is_running, has_failed, pass, passes, pass_done,
  // rate, cost, left_ms, started_ms, trainers, pservers, tags, note, git, stalled,
  // loss: the nodes that are lost or do not answer, in a sentence}.
  Json summary() const;

  struct LogFile {
    std::size_t member = 0;
    std::string path;      // below the node's root
    bool is_over = false;  // the process has ended
  };
  // The log of a process; nothing if the job has no such process, or its node names no file of the
  // job.
  std::optional<LogFile> log_of(const std::string& process) const;

  const std::string& name() const { return name_; }
  const JobView& view() const { return view_; }
  const RunRecord& run_record() const { return run_; }
  std::int64_t started_unix_ms() const { return started_unix_ms_; }
  bool runs() const;
  // The members that had processes of the job when they last answered.
  std::vector<std::size_t> members() const;

 private:
  // A process and the state of reading its files. During read() one thread alone uses it.
  struct LiveProcess {
    std::size_t member = 0;
    remote::ProcessStatus status;
    bool is_seen = false;  // its node has answered in this round
    std::optional<LogReader> metrics, log;
    bool metrics_are_begun = false, log_is_begun = false;
    bool metrics_are_over = false, log_is_over = false;  // all is read, and the process has ended
    bool has_more = false;
    bool has_new_lines = false, has_new_events = false;  // in this round
    std::vector<MetricsLine> recent;  // the last lines: kLinesLookedAt, and up to as many more
    ProcessRecord record;             // only its role, metrics and totals
    std::optional<KeptMetrics> kept;
    std::optional<LogEvents> events;
    std::deque<std::string> last_lines;  // of the log: up to kLastLinesKept
  };

  void begin_process(LiveProcess& process, const ProcessOnNode& now);
  void restart_reading(LiveProcess& process);
  Status read_settings(remote::AgentClient& client);
  Status read_metrics(remote::AgentClient& client, LiveProcess& process);
  Status read_log(remote::AgentClient& client, LiveProcess& process, const MachineRecord& machine);
  void take_lines(const std::vector<LogLine>& lines, LiveProcess& process);
  bool is_at_rest() const;
  void forget_lost(const ClusterSession& session, const ClusterLook& look);
  // Brings record_.processes to the state of the view, with the metrics.
  void update_processes(const ClusterSession& session, const std::vector<MachineRecord>& machines);
  // False if no event has changed.
  bool update_events();
  void update_record(const ClusterSession& session, const std::vector<MachineRecord>& machines,
                     const std::string& output);
  Json now_of(const ProcessView& process) const;
  Json live_json(const ClusterSession& session) const;
  std::string loss() const;
  // By the processes that were seen.
  std::optional<JobProgress> progress_seen() const;
  Json failure_json(const ClusterSession& session) const;

  std::string name_;
  JobView view_;
  std::map<std::string, LiveProcess> processes_;  // by name
  std::string state_;
  bool has_ended_ = false;  // by state_
  std::string failed_;      // the process of the first failure, if state_ has one
  std::vector<std::string> stalled_;
  std::set<std::string> unreachable_;    // nodes
  std::optional<JobProgress> progress_;  // as last seen
  JobSize size_;
  std::int64_t started_unix_ms_ = 0;  // the first of its processes
  // The settings are from the node of the first trainer, and read again for each run.
  std::optional<std::size_t> settings_from_;
  std::uint64_t run_number_ = 0;
  bool has_settings_ = false;
  RunRecord run_;
  std::string configuration_;

  bool runs_ = false;       // a process runs on a node that answers
  std::size_t unseen_ = 0;  // processes on nodes that do not answer
  bool is_taken_ = false;   // since begin() has found a change
  bool wants_record_ = false;
  JobRecord record_;
  JobFigures figures_;
  bool figures_are_old_ = true, events_are_old_ = true;
  std::string states_;  // of the processes, as record_.events has them
  std::optional<std::uint64_t> commands_of_run_;
  Json::Fields fields_;  // without "live"
  Json live_;
};

}  // namespace paddle::cli
