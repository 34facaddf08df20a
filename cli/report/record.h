// The record of a job in its output folder, with its processes, machines and commands: the source
// for the report page and the event files.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"
#include "cli/console/json.h"
#include "cli/job/settings.h"
#include "cli/report/metrics_totals.h"
#include "cli/watch/metrics_line.h"
#include "cli/watch/view.h"

namespace paddle::cli {

// A line of a file of the record: one flat JSON object.
class FlatRecord {
 public:
  explicit FlatRecord(std::vector<JsonField> fields) : fields_(std::move(fields)) {}
  std::string text(std::string_view key) const;  // "" if it has none
  double number(std::string_view key) const;     // 0 if it has none between 0 and 1e18
  std::optional<double> any_number(std::string_view key) const;  // within +-1e9

 private:
  std::vector<JsonField> fields_;
};

// Visits the lines of a regular file that a node named, unless the path leaves the folder or leads
// through a link; over-long lines are left out.
void each_line(const std::string& folder, const std::string& path,
               const std::function<void(const std::string&)>& visit);

// Nothing if there is no such file; damaged lines are left out.
std::vector<FlatRecord> read_flat_records(const std::string& path);

struct MachineRecord {
  std::string node, processor, os, kernel, gpus, agent_version;  // "": not known, or none
  double cores = 0, memory_bytes = 0;
  std::optional<std::int64_t> utc_offset_s;  // for the local time in its logs
  double price_per_hour = 0;                 // 0: not known
  std::string currency = {};
};

// The word, quoted for a shell if it has to be.
std::string shell_word(const std::string& word);

// The command that resumes a job with the settings of its start; "" if it is not known.
struct ResumeCommand {
  std::string text;       // quoted for a shell
  std::string variables;  // names in --env, "TOKEN, KEY"; their values are not in the text

  // "resume with: paddlectl train ...", or "export TOKEN, then resume with: ...".
  std::string after(std::string_view lead) const;
};

// A start of the job: `train`, and each `train --resume`.
struct CommandRecord {
  std::int64_t unix_ms = 0;
  std::string text;     // the typed text, quoted for a shell; values of --env are left out
  std::string version;  // version of paddlectl and of its engine
  ResumeCommand resume = {};
  bool is_resume = false;
  std::size_t trainers = 0, pservers = 0;  // started by it; both 0: not known
  RunRecord record = {};
};

// `arguments`: as typed, with the command's name at the index `command`. The text is empty for a
// command other than `train`.
ResumeCommand resume_command(const std::vector<std::string>& arguments, std::size_t command,
                             const std::string& job);
// The command for a job whose settings only its nodes have.
ResumeCommand resume_command_of(const std::string& job);

// Asks the agent of a connected member for its machine.
Result<MachineRecord> machine_of(Member& member);
// Writes machines.jsonl, with an object for each node that answers.
Status write_machines(const std::string& folder, ClusterSession& session);
// Adds this command to <output>/<job>/commands.jsonl, with the counts and the kind in `started`.
// Makes the folder.
Status add_command(const Context& context, const std::string& output, const std::string& job,
                   const CommandRecord& started = {});

// The settings of the job's last start in its output folder, whoever wrote them; to be shown only.
std::optional<JobSettings> shown_settings(const std::string& folder);
// The tags, the note and the git commit of that start.
RunRecord read_run_record(const std::string& folder);

// Nothing if the folder has no such file; damaged lines are left out.
std::vector<MachineRecord> read_machines(const std::string& folder);
std::vector<CommandRecord> read_commands(const std::string& folder);

// job.toml as a node sent it, in an output folder on a machine that did not start the job.
constexpr const char* kConfigurationOfNode = "job.toml.of-node";

struct ProcessRecord {
  std::string node, role, state;
  bool failed = false;
  std::int64_t started_unix_ms = 0, ended_unix_ms = 0;  // its last start; 0: not ended
  std::int64_t begun_unix_ms = 0;                       // its first start, if known
  double resident_bytes = 0, cpu_ms = 0;                // 0: not known
  double received_bytes = 0, sent_bytes = 0;
  std::uint32_t incarnation = 1;             // the number of its starts
  std::string arguments;                     // the program's, in one line, without placeholders
  std::string log;                           // below the folder
  std::optional<std::int64_t> utc_offset_s;  // for the local time in its log
  std::vector<MetricsLine> metrics;
  bool lacks_metrics = false;  // the last ones are missing, because there are too many
  // The totals of all lines, if `metrics` has only some of them; see totals_of().
  std::shared_ptr<MetricsTotals> totals = {};
  // Its activity at this moment, as a JSON object, in a job that is looked at live.
  std::optional<Json> now = {};

  bool is_trainer() const { return role.starts_with("trainer-"); }
};

struct JobEvent {
  std::int64_t unix_ms = 0;
  std::string role, text;
  bool is_bad = false;
  bool is_said = false;  // the text is a line of the process's log
};

struct JobRecord {
  std::string job;
  std::vector<ProcessRecord> processes;  // pservers, then trainers, each by number
  std::vector<JobEvent> events;          // by time
  std::string configuration;             // job.toml
  std::vector<MachineRecord> machines;
  std::vector<CommandRecord> commands;
  std::optional<JobSettings> settings;  // of its last start here, or as a node sent them

  RunRecord run;  // of that start
};

// The sums over all lines of metrics of the process.
std::shared_ptr<const MetricsTotals> totals_of(const ProcessRecord& process);

// The processes with what only the nodes know, without their metrics. Paths of logs are relative to
// the job's folder; "" if a node names a file elsewhere.
std::vector<ProcessRecord> processes_of(const JobView& view);
// Sets the first start of each process, as far as the metrics and the other processes show it.
void set_first_starts(std::vector<ProcessRecord>& processes);
// The tags, the note and the git commit of the last start.
RunRecord run_record(const std::optional<JobSettings>& settings,
                     const std::vector<CommandRecord>& commands);

// Writes processes.jsonl into the job's output folder: processes_of(), an object per process.
Status write_processes(const std::string& folder, const JobView& view);
// kUsage: the folder has no processes.jsonl. Damaged lines and missing files are left out.
Result<JobRecord> read_job_record(const std::string& folder, const std::string& job);

// Whether the job's folder has all that its nodes have: it has ended, and was not started since.
bool is_whole_record(const std::string& folder, const JobRecord& record);
// Whether the record is of the runs of these processes, as their nodes have them now: another job
// may have had the name, or may have been continued from another machine.
bool is_record_of(const JobRecord& record, const std::vector<ProcessOnNode>& processes);

// A line of metrics with its batch number over all passes; in the line, each pass counts from 0.
struct StepOfLine {
  const MetricsLine* line = nullptr;
  std::uint64_t step = 0;
};
std::vector<StepOfLine> steps_of(const std::vector<MetricsLine>& metrics);

}  // namespace paddle::cli
