#include "cli/report/record.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fd.h"
#include "base/safe_path.h"
#include "cli/console/json.h"
#include "cli/job/process_state.h"

namespace paddle::cli {
namespace {

constexpr std::size_t kProcessesBytesMax = 64U << 20U;
constexpr std::size_t kConfigurationBytesMax = 1U << 20U;
constexpr std::size_t kMetricsLinesMax = 1'000'000;  // of a process; later ones are left out
constexpr std::size_t kLineBytesMax = 64U << 10U;
constexpr std::size_t kWarningsMax = 200;  // of a process: its last ones
constexpr std::size_t kWarningBytesMax = 500;

using Fields = std::vector<JsonField>;

std::string text_of(const Fields& fields, std::string_view key) {
  const auto found = std::ranges::find(fields, key, &JsonField::key);
  const auto* const text =
      found == fields.end() ? nullptr : std::get_if<std::string>(&found->value);
  return text == nullptr ? "" : *text;
}

double number_of(const Fields& fields, std::string_view key) {
  const auto found = std::ranges::find(fields, key, &JsonField::key);
  const auto* const number = found == fields.end() ? nullptr : std::get_if<double>(&found->value);
  return number == nullptr || !(*number > 0 && *number < 1e18) ? 0 : *number;
}

// "jobs/<job>/node_0/train.log" -> "node_0/train.log"
std::string below_job(const std::string& path, const std::string& job) {
  const std::string prefix = "jobs/" + job + "/";
  return path.starts_with(prefix) ? path.substr(prefix.size()) : "";
}

// Visits the lines of a file that a node named, unless its path leaves the folder.
void each_line(const std::string& folder, const std::string& path,
               const std::function<void(const std::string&)>& visit) {
  if (!SafePath::parse(path)) return;
  std::ifstream file(folder + "/" + path);
  for (std::string line; std::getline(file, line);) {
    if (line.size() <= kLineBytesMax) visit(line);
  }
}

std::vector<MetricsLine> read_metrics(const std::string& folder, const std::string& path) {
  std::vector<MetricsLine> lines;
  each_line(folder, path, [&](const std::string& line) {
    auto parsed = lines.size() < kMetricsLinesMax ? parse_metrics(line) : std::nullopt;
    if (parsed) lines.push_back(*std::move(parsed));
  });
  return lines;
}

// A warning or an error of the engine: "W1121 19:27:48.123456 trainer-0] text".
bool is_warning(const std::string& line) {
  if (line.size() < 22 || (line[0] != 'W' && line[0] != 'E')) return false;
  const bool digits =
      std::all_of(line.begin() + 1, line.begin() + 5, [](char c) { return c >= '0' && c <= '9'; });
  return digits && line[5] == ' ' && line.find("] ") != std::string::npos;
}

void add_warnings(const std::string& folder, const std::string& log, const ProcessRecord& process,
                  std::vector<JobEvent>& events) {
  std::vector<JobEvent> found;
  each_line(folder, log, [&](const std::string& line) {
    if (!is_warning(line)) return;
    // The line's time has no year and no zone: use the end of the process.
    const std::int64_t when =
        process.ended_unix_ms > 0 ? process.ended_unix_ms : process.started_unix_ms;
    found.push_back({when, process.role, line.substr(0, kWarningBytesMax), line[0] == 'E'});
    if (found.size() > 2 * kWarningsMax) {
      found.erase(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(kWarningsMax));
    }
  });
  const std::size_t skipped = found.size() > kWarningsMax ? found.size() - kWarningsMax : 0;
  events.insert(events.end(), found.begin() + static_cast<std::ptrdiff_t>(skipped), found.end());
}

void add_events(const ProcessRecord& process, std::vector<JobEvent>& events) {
  events.push_back({process.started_unix_ms, process.role, "started on " + process.node, false});
  for (const MetricsLine& line : process.metrics) {
    if (line.kind == "test") {
      events.push_back({line.unix_ms, process.role, describe(line), false});
    } else if (line.kind == "save") {
      const std::string path = line.texts.empty() ? "" : line.texts.front().second;
      const auto slash = path.rfind('/');
      events.push_back({line.unix_ms, process.role,
                        "snapshot " + (slash == std::string::npos ? path : path.substr(slash + 1)),
                        false});
    }
  }
  if (process.ended_unix_ms > 0) {
    events.push_back({process.ended_unix_ms, process.role, process.state, process.failed});
  }
}

}  // namespace

Status write_processes(const std::string& folder, const JobView& view) {
  std::string text;
  for (const ProcessView& process : view.processes()) {
    const remote::ProcessStatus& status = process.status;
    const remote::Usage usage = status.usage.value_or(remote::Usage());
    const bool runs = is_running(status);
    const bool well = runs || status.stopped || ended_well(status);
    const Json record =
        Json::object({{"node", process.node},
                      {"role", status.name},
                      {"state", describe_state(status)},
                      {"failed", well ? 0 : 1},
                      {"started_unix_ms", status.started_unix_ms},
                      {"ended_unix_ms", runs ? 0 : status.ended_unix_ms},
                      {"resident_bytes", usage.resident_bytes},
                      {"cpu_ms", usage.cpu_ms},
                      {"received_bytes", usage.received_bytes.value_or(0)},
                      {"sent_bytes", usage.sent_bytes.value_or(0)},
                      {"arguments", fmt::format("{}", fmt::join(status.arguments, " "))},
                      {"log", below_job(status.log, view.job())}});
    text += record.text() + "\n";
  }
  return replace_file(folder + "/processes.jsonl", as_bytes(text), 0644);
}

Result<JobRecord> read_job_record(const std::string& folder, const std::string& job) {
  const auto text = read_file(folder + "/processes.jsonl", kProcessesBytesMax);
  if (!text) {
    return Error{Errc::kUsage, fmt::format("{} holds no results of a job", folder),
                 "fetch them first: paddlectl fetch, where its nodes can be reached"};
  }
  JobRecord record;
  record.job = job;
  for (std::size_t begin = 0; begin < text->size();) {
    const std::size_t end = std::min(text->find('\n', begin), text->size());
    const auto fields = read_flat_object(std::string_view(*text).substr(begin, end - begin));
    begin = end + 1;
    if (!fields) continue;
    ProcessRecord process;
    process.node = text_of(*fields, "node");
    process.role = text_of(*fields, "role");
    process.state = text_of(*fields, "state");
    process.failed = number_of(*fields, "failed") > 0;
    process.started_unix_ms = static_cast<std::int64_t>(number_of(*fields, "started_unix_ms"));
    process.ended_unix_ms = static_cast<std::int64_t>(number_of(*fields, "ended_unix_ms"));
    process.resident_bytes = number_of(*fields, "resident_bytes");
    process.cpu_ms = number_of(*fields, "cpu_ms");
    process.received_bytes = number_of(*fields, "received_bytes");
    process.sent_bytes = number_of(*fields, "sent_bytes");
    process.arguments = text_of(*fields, "arguments");
    const std::string log = text_of(*fields, "log");
    process.metrics = read_metrics(folder, metrics_path(log));
    add_events(process, record.events);
    add_warnings(folder, log, process, record.events);
    record.processes.push_back(std::move(process));
  }
  std::ranges::stable_sort(record.events, {}, &JobEvent::unix_ms);
  if (auto configuration = read_file(folder + "/job.toml", kConfigurationBytesMax)) {
    record.configuration = *std::move(configuration);
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
