// A job as recorded in its output folder: the source of the report page and the event files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/logs/metrics_line.h"
#include "cli/report/surroundings.h"
#include "cli/watch/view.h"

namespace paddle::cli {

// job.toml as a node has it, in an output folder of a machine that did not start the job.
constexpr const char* kConfigurationOfNode = "job.toml.of-node";

struct ProcessRecord {
  std::string node, role, state;
  bool failed = false;
  std::int64_t started_unix_ms = 0, ended_unix_ms = 0;  // of its last start; 0: not ended
  std::int64_t begun_unix_ms = 0;                       // of its first start, as far as it tells
  double resident_bytes = 0, cpu_ms = 0;                // 0: not known
  double received_bytes = 0, sent_bytes = 0;
  std::uint32_t life = 1;  // how often it was started
  std::string arguments;   // of its program, in one line, without those its supervisor fills in
  std::string log;         // below the folder
  std::optional<std::int64_t> utc_offset_s;  // of the local time in its log
  std::vector<MetricsLine> metrics;
  bool lacks_metrics = false;  // the last ones: there are too many

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
};

// Writes processes.jsonl into the job's output folder, an object a process, with what only the
// nodes know. Paths of logs are relative to the folder.
Status write_processes(const std::string& folder, const JobView& view);
// kUsage when the folder has no processes.jsonl. Damaged lines and missing files are left out.
Result<JobRecord> read_job_record(const std::string& folder, const std::string& job);

// A line of metrics with its batch number over all passes; each pass counts from 0 again.
struct StepOfLine {
  const MetricsLine* line = nullptr;
  std::uint64_t step = 0;
};
std::vector<StepOfLine> steps_of(const std::vector<MetricsLine>& metrics);

}  // namespace paddle::cli
