#include "cli/report/record.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fd.h"
#include "cli/console/json.h"
#include "cli/report/events.h"
#include "cli/report/output_files.h"
#include "cli/watch/first_failure.h"
#include "cli/watch/process_state.h"

namespace paddle::cli {
namespace {

constexpr std::size_t kConfigurationBytesMax = 1U << 20U;
// Later lines are left out: a node may send any number, and in memory they take ten times as much.
constexpr std::size_t kMetricsBytesMax = 64U << 20U;  // of a process
constexpr std::size_t kAllMetricsBytesMax = 256U << 20U;
constexpr std::size_t kMetricsLineBytes = 128;  // at least, for each line

// "jobs/<job>/node_0/train.log" -> "node_0/train.log"
std::string below_job(const std::string& path, const std::string& job) {
  const std::string prefix = "jobs/" + job + "/";
  return path.starts_with(prefix) ? path.substr(prefix.size()) : "";
}

// Takes the bytes of the lines it reads from those that are left.
void read_metrics(const std::string& folder, ProcessRecord& process, std::size_t& bytes_left) {
  std::size_t bytes = 0;
  const std::size_t bytes_max = std::min(kMetricsBytesMax, bytes_left);
  each_line(folder, metrics_path(process.log), [&](const std::string& line) {
    bytes += std::max(line.size(), kMetricsLineBytes);
    process.lacks_metrics = bytes > bytes_max;
    if (process.lacks_metrics) return;
    if (auto parsed = parse_metrics(line)) process.metrics.push_back(*std::move(parsed));
  });
  bytes_left -= std::min(bytes, bytes_max);
}

// Without those that paddlectl makes for its own use, as the ones with a placeholder.
std::string without_internal(const std::string& arguments) {
  std::istringstream words(arguments);
  std::string kept;
  for (std::string word; std::getline(words, word, ' ');) {
    const bool is_internal =
        std::ranges::any_of(std::array{"{root}", "{life}", "{again}", "--job_tag="},
                            [&](const char* mark) { return word.find(mark) != std::string::npos; });
    if (!is_internal) kept += (kept.empty() ? "" : " ") + word;
  }
  return kept;
}

ProcessRecord process_of(const FlatRecord& line, const std::string& folder,
                         const std::vector<MachineRecord>& machines, std::size_t& bytes_left) {
  ProcessRecord process;
  process.node = line.text("node");
  process.role = line.text("role");
  process.state = line.text("state");
  process.failed = line.number("failed") > 0;
  process.started_unix_ms = static_cast<std::int64_t>(line.number("started_unix_ms"));
  process.ended_unix_ms = static_cast<std::int64_t>(line.number("ended_unix_ms"));
  process.resident_bytes = line.number("resident_bytes");
  process.cpu_ms = line.number("cpu_ms");
  process.received_bytes = line.number("received_bytes");
  process.sent_bytes = line.number("sent_bytes");
  process.life = static_cast<std::uint32_t>(std::clamp(line.number("life"), 1.0, 1e9));
  process.arguments = without_internal(line.text("arguments"));
  process.log = line.text("log");
  read_metrics(folder, process, bytes_left);
  process.begun_unix_ms = process.started_unix_ms;
  for (const MetricsLine& one : process.metrics) {
    if (one.unix_ms > 0) process.begun_unix_ms = std::min(process.begun_unix_ms, one.unix_ms);
  }
  const auto machine = std::ranges::find(machines, process.node, &MachineRecord::node);
  if (machine != machines.end()) process.utc_offset_s = machine->utc_offset_s;
  return process;
}

}  // namespace

Status write_processes(const std::string& folder, const JobView& view) {
  std::string text;
  std::vector<ProcessOnNode> all;
  for (const ProcessView& process : view.processes()) all.push_back({0, process.status});
  // A job that was stopped has not failed, whatever its end did to a process that needs others.
  const bool has_failed = first_failure(all) != nullptr && !is_stopped_job(all);
  for (const ProcessView& process : view.processes()) {
    const remote::ProcessStatus& status = process.status;
    const remote::Usage usage = status.usage.value_or(remote::Usage());
    const bool runs = is_running(status);
    const bool well = runs || status.stopped || ended_well(status) || !has_failed;
    const Json record =
        Json::object({{"node", process.node},
                      {"role", status.name},
                      {"state", process.state_text()},
                      {"failed", well ? 0 : 1},
                      {"started_unix_ms", status.started_unix_ms},
                      {"ended_unix_ms", runs ? 0 : status.ended_unix_ms},
                      {"resident_bytes", usage.resident_bytes},
                      {"cpu_ms", usage.cpu_ms},
                      {"received_bytes", usage.received_bytes.value_or(0)},
                      {"sent_bytes", usage.sent_bytes.value_or(0)},
                      {"life", status.life},
                      {"arguments", fmt::format("{}", fmt::join(status.arguments, " "))},
                      {"log", below_job(status.log, view.job())}});
    text += record.text() + "\n";
  }
  return replace_file(folder + "/processes.jsonl", as_bytes(text), 0644);
}

Result<JobRecord> read_job_record(const std::string& folder, const std::string& job) {
  const std::string processes = folder + "/processes.jsonl";
  if (!std::filesystem::exists(processes)) {
    return Error{Errc::kUsage, fmt::format("{} holds no results of a job", folder),
                 "fetch them first: paddlectl fetch, where its nodes can be reached"};
  }
  JobRecord record;
  record.job = job;
  record.machines = read_machines(folder);
  record.commands = read_commands(folder);
  std::size_t bytes_left = kAllMetricsBytesMax;
  for (const FlatRecord& line : read_flat_records(processes)) {
    record.processes.push_back(process_of(line, folder, record.machines, bytes_left));
  }
  // A job's processes start together; one restarted since knows only its last start.
  std::int64_t begun = std::numeric_limits<std::int64_t>::max();
  for (const ProcessRecord& process : record.processes) {
    if (process.begun_unix_ms > 0) begun = std::min(begun, process.begun_unix_ms);
  }
  for (ProcessRecord& process : record.processes) {
    if (process.life > 1) process.begun_unix_ms = begun;
  }
  record.events = events_of(record, folder);
  for (const std::string name : {"job.toml", kConfigurationOfNode}) {
    auto configuration = read_file(folder + "/" + name, kConfigurationBytesMax);
    if (!configuration) continue;
    record.configuration = *std::move(configuration);
    break;
  }
  return record;
}

std::vector<StepOfLine> steps_of(const std::vector<MetricsLine>& metrics) {
  std::vector<StepOfLine> steps;
  std::uint64_t before = 0;   // batches of the passes that ended
  std::uint64_t in_pass = 0;  // of the one that runs
  std::uint64_t pass = 0;
  for (const MetricsLine& line : metrics) {
    if (line.pass != pass) {
      before += in_pass;
      in_pass = 0;
      pass = line.pass;
    }
    in_pass = std::max(in_pass, line.batch);
    steps.push_back({&line, before + line.batch});
  }
  return steps;
}

}  // namespace paddle::cli
