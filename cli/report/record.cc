#include "cli/report/record.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <mutex>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fd.h"
#include "base/safe_path.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/cluster/gpus.h"
#include "cli/console/json.h"
#include "cli/job/results.h"
#include "cli/report/events.h"
#include "cli/watch/first_failure.h"
#include "cli/watch/process_state.h"
#include "proto/agent.pb.h"

namespace paddle::cli {
namespace {

// The files.

constexpr std::size_t kBytesMax = 64U << 20U;
constexpr std::size_t kLineBytesMax = 64U << 10U;

template <class Value>
const Value* find(const std::vector<JsonField>& fields, std::string_view key) {
  const auto found = std::ranges::find(fields, key, &JsonField::key);
  return found == fields.end() ? nullptr : std::get_if<Value>(&found->value);
}

// Machines and commands.

constexpr const char* kMachines = "machines.jsonl";
constexpr const char* kCommands = "commands.jsonl";

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("-_./:=,@%+").find(c) != std::string_view::npos;
}

// "$'caf\xe9'": quotes a word with characters that a terminal or JSON cannot show.
std::string ansi_c_quoted(std::string_view word) {
  std::string text;
  for (const char c : word) {
    if (c == '\'' || c == '\\') text += '\\';
    text += c;
  }
  return fmt::format("$'{}'", escape_control(text));
}

}  // namespace

std::string shell_word(const std::string& word) {
  if (!word.empty() && std::ranges::all_of(word, is_plain)) return word;
  if (escape_control(word) != word) return ansi_c_quoted(word);
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

namespace {

// "KEY=VALUE" -> "KEY=...": values of --env may be secrets.
std::string without_value(const std::string& setting) {
  const std::size_t equals = setting.find('=');
  return equals == std::string::npos ? setting : setting.substr(0, equals) + "=...";
}

std::string as_typed(const std::vector<std::string>& arguments) {
  constexpr std::string_view kEnvironment = "--env";
  std::string text = "paddlectl";
  bool is_environment = false;  // the previous word is --env
  for (const std::string& word : arguments) {
    std::string shown = word;
    if (is_environment) shown = without_value(word);
    if (word.starts_with("--env=")) {
      shown = "--env=" + without_value(word.substr(kEnvironment.size() + 1));
    }
    is_environment = word == kEnvironment;
    text += " " + shell_word(shown);
  }
  return text;
}

// Options of `train` that are not for another start of the same job.
bool is_left_out(std::string_view word) {
  word = word.substr(0, word.find('='));  // --resume=false
  return word == "--resume" || word == "--dry-run" || word == "--prepare";
}
bool is_left_out_with_value(std::string_view word) {
  word = word.substr(0, word.find('='));
  return word == "--name" || word == "--job" || word == "--from" || word == "--tag" ||
         word == "--note";  // the job keeps the last two
}

// Processes.

constexpr std::size_t kConfigurationBytesMax = 1U << 20U;
// Later lines are left out: a node may send any number of lines, and in memory they take ten times
// as much.
constexpr std::size_t kMetricsBytesMax = 64U << 20U;  // for one process
constexpr std::size_t kAllMetricsBytesMax = 256U << 20U;
constexpr std::size_t kMetricsLineBytes = 128;  // counted for each line, at least

// "jobs/<job>/node_0/train.log" -> "node_0/train.log"
std::string below_job(const std::string& path, const std::string& job) {
  const std::string prefix = "jobs/" + job + "/";
  return path.starts_with(prefix) ? path.substr(prefix.size()) : "";
}

// Reads the lines of metrics, and subtracts their bytes from bytes_left.
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

// The arguments without those that paddlectl adds for itself, such as those with a placeholder.
std::string without_internal(const std::string& arguments) {
  std::istringstream words(arguments);
  std::string kept;
  for (std::string word; std::getline(words, word, ' ');) {
    const bool is_internal =
        std::ranges::any_of(std::array{"{root}", "{incarnation}", "{again}", "--job_tag="},
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
  process.incarnation =
      static_cast<std::uint32_t>(std::clamp(line.number("incarnation"), 1.0, 1e9));
  process.arguments = without_internal(line.text("arguments"));
  process.log = line.text("log");
  read_metrics(folder, process, bytes_left);
  const auto machine = std::ranges::find(machines, process.node, &MachineRecord::node);
  if (machine != machines.end()) process.utc_offset_s = machine->utc_offset_s;
  return process;
}

}  // namespace

std::string FlatRecord::text(std::string_view key) const {
  const auto* const value = find<std::string>(fields_, key);
  return value == nullptr ? "" : *value;
}

double FlatRecord::number(std::string_view key) const {
  const auto* const value = find<double>(fields_, key);
  return value == nullptr || !(*value > 0 && *value < 1e18) ? 0 : *value;
}

std::optional<double> FlatRecord::any_number(std::string_view key) const {
  const auto* const value = find<double>(fields_, key);
  if (value == nullptr || !(std::abs(*value) < 1e9)) return std::nullopt;
  return *value;
}

void each_line(const std::string& folder, const std::string& path,
               const std::function<void(const std::string&)>& visit) {
  const auto safe = SafePath::parse(path);
  const UniqueFd at(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!safe || !at) return;
  const auto file = safe->open_read(at.get());
  if (!file) return;
  std::array<char, kLineBytesMax> buffer;
  std::string line;  // only the beginning of a line that is too long
  for (ssize_t got = 0; (got = ::read(file->get(), buffer.data(), buffer.size())) > 0;) {
    std::string_view rest(buffer.data(), static_cast<std::size_t>(got));
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      if (line.size() <= kLineBytesMax) line += rest.substr(0, end);
      if (end == rest.size()) break;
      if (line.size() <= kLineBytesMax) visit(line);
      line.clear();
      rest.remove_prefix(end + 1);
    }
  }
  if (!line.empty() && line.size() <= kLineBytesMax) visit(line);
}

std::vector<FlatRecord> read_flat_records(const std::string& path) {
  std::vector<FlatRecord> records;
  const auto text = read_file(path, kBytesMax);
  if (!text) return records;
  for (std::size_t begin = 0; begin < text->size();) {
    const std::size_t end = std::min(text->find('\n', begin), text->size());
    auto fields = read_flat_object(std::string_view(*text).substr(begin, end - begin));
    begin = end + 1;
    if (fields) records.emplace_back(*std::move(fields));
  }
  return records;
}

std::string ResumeCommand::after(std::string_view lead) const {
  return fmt::format(
      "{}{}: {}", variables.empty() ? "" : fmt::format("export {}, then ", variables), lead, text);
}

ResumeCommand resume_command(const std::vector<std::string>& arguments, std::size_t command,
                             const std::string& job) {
  if (command >= arguments.size() || arguments[command] != "train") return {};
  std::vector<std::string> words{"paddlectl"};
  std::vector<std::string> variables;
  const auto add_variable = [&](std::string_view setting) {
    variables.emplace_back(setting.substr(0, setting.find('=')));
    words.insert(words.end(), {"--env", variables.back()});
  };
  const auto own_word = arguments.begin() + static_cast<std::ptrdiff_t>(command);
  const auto dashes = std::find(own_word, arguments.end(), "--");
  for (auto word = arguments.begin(); word != dashes; ++word) {
    const bool has_next = word + 1 != dashes;
    if (word == own_word) {
      words.insert(words.end(), {"train", "--resume", "--name", shell_word(job)});
    } else if (is_left_out_with_value(*word)) {
      if (word->find('=') == std::string::npos && has_next) ++word;
    } else if (*word == "--env" && has_next) {
      add_variable(*++word);
    } else if (word->starts_with("--env=")) {
      add_variable(std::string_view(*word).substr(std::string_view("--env=").size()));
    } else if (!is_left_out(*word)) {
      words.push_back(shell_word(*word));
    }
  }
  for (auto word = dashes; word != arguments.end(); ++word) words.push_back(shell_word(*word));
  return {fmt::format("{}", fmt::join(words, " ")), fmt::format("{}", fmt::join(variables, ", "))};
}

ResumeCommand resume_command_of(const std::string& job) {
  return {fmt::format("paddlectl train --resume --name {} <workspace>", shell_word(job)), ""};
}

Result<MachineRecord> machine_of(Member& member) {
  PADDLE_TRY(const wire::agent::Facts facts, member.client->facts());
  MachineRecord machine;
  machine.node = member.spec.name;
  machine.processor = facts.processor();
  machine.os = facts.os();
  machine.kernel = facts.kernel();
  machine.gpus = fmt::format("{}", fmt::join(gpu_models(facts), ", "));
  machine.agent_version = facts.agent_version();
  machine.cores = static_cast<double>(facts.cores());
  machine.memory_bytes = static_cast<double>(facts.memory_bytes());
  machine.utc_offset_s = facts.utc_offset_s();
  machine.price_per_hour = member.price_per_hour;
  machine.currency = member.currency;
  return machine;
}

Status write_machines(const std::string& folder, ClusterSession& session) {
  std::vector<std::string> lines(session.members().size());
  // A node that does not answer is left out.
  (void)session.each([&](Member& member) -> Status {
    PADDLE_TRY(const MachineRecord machine, machine_of(member));
    lines[session.index_of(member)] =
        Json::object({{"node", machine.node},
                      {"processor", machine.processor},
                      {"os", machine.os},
                      {"kernel", machine.kernel},
                      {"gpus", machine.gpus},
                      {"agent_version", machine.agent_version},
                      {"cores", Json::number(machine.cores)},
                      {"memory_bytes", Json::number(machine.memory_bytes)},
                      {"utc_offset_s", machine.utc_offset_s},
                      {"price_per_hour", Json::number(machine.price_per_hour)},
                      {"currency", machine.currency}})
            .text() +
        "\n";
    return {};
  });
  return replace_file(folder + "/" + kMachines, as_bytes(fmt::format("{}", fmt::join(lines, ""))),
                      0644);
}

Status add_command(const Context& context, const std::string& output, const std::string& job,
                   const CommandRecord& started) {
  PADDLE_TRY(const std::filesystem::path folder,
             make_output_folder(context, output, job, "choose another --output"));
  const ResumeCommand resume = resume_command(context.arguments, context.command_at, job);
  Json::Fields command = {{"unix_ms", context.unix_seconds() * 1000},
                          {"command", as_typed(context.arguments)},
                          {"version", kProgramVersion},
                          {"resume", resume.text},
                          {"variables", resume.variables},
                          {"is_resume", started.is_resume ? 1 : 0},
                          {"trainers", started.trainers},
                          {"pservers", started.pservers}};
  std::ranges::move(fields_of(started.record), std::back_inserter(command));
  const std::string path = folder / kCommands;
  const UniqueFd file(
      ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!file) return system_error(Errc::kResource, "open " + path);
  return write_all(file.get(), as_bytes(Json::object(command).text() + "\n"), TimePoint::max());
}

std::optional<JobSettings> shown_settings(const std::string& folder) {
  for (const char* const name : {kSettingsFile, kSettingsOfNode}) {
    const auto text = read_file(folder + "/" + name, kSettingsBytesMax);
    if (!text) continue;
    if (auto settings = decode_settings(*text)) return settings;
  }
  return std::nullopt;
}

RunRecord read_run_record(const std::string& folder) {
  return run_record(shown_settings(folder), read_commands(folder));
}

std::vector<MachineRecord> read_machines(const std::string& folder) {
  std::vector<MachineRecord> machines;
  for (const FlatRecord& line : read_flat_records(folder + "/" + kMachines)) {
    MachineRecord machine{
        line.text("node"),    line.text("processor"),      line.text("os"),
        line.text("kernel"),  line.text("gpus"),           line.text("agent_version"),
        line.number("cores"), line.number("memory_bytes"), {}};
    machine.price_per_hour = line.number("price_per_hour");
    machine.currency = line.text("currency");
    if (const auto offset = line.any_number("utc_offset_s")) {
      machine.utc_offset_s = static_cast<std::int64_t>(*offset);
    }
    machines.push_back(std::move(machine));
  }
  return machines;
}

std::vector<CommandRecord> read_commands(const std::string& folder) {
  std::vector<CommandRecord> commands;
  for (const FlatRecord& line : read_flat_records(folder + "/" + kCommands)) {
    commands.push_back({static_cast<std::int64_t>(line.number("unix_ms")),
                        line.text("command"),
                        line.text("version"),
                        {line.text("resume"), line.text("variables")},
                        line.number("is_resume") > 0,
                        static_cast<std::size_t>(line.number("trainers")),
                        static_cast<std::size_t>(line.number("pservers")),
                        run_record_of([&](std::string_view key) { return line.text(key); })});
  }
  return commands;
}

std::shared_ptr<const MetricsTotals> totals_of(const ProcessRecord& process) {
  if (process.totals) return process.totals;
  auto totals = std::make_shared<MetricsTotals>();
  for (const MetricsLine& line : process.metrics) totals->add(line);
  return totals;
}

std::vector<ProcessRecord> processes_of(const JobView& view) {
  std::vector<ProcessRecord> processes;
  std::vector<ProcessOnNode> all;
  for (const ProcessView& process : view.processes()) all.push_back({0, process.status});
  // In a job that was stopped no process counts as failed, even if the stop made one lose its
  // peers.
  const bool has_failed = first_failure(all) != nullptr && !is_stopped_job(all);
  for (const ProcessView& process : view.processes()) {
    const remote::ProcessStatus& status = process.status;
    const remote::Usage usage = status.usage.value_or(remote::Usage());
    const bool runs = is_running(status);
    ProcessRecord record;
    record.node = process.node;
    record.role = status.name;
    record.state = process.state_text();
    record.failed = !runs && !status.stopped && !ended_well(status) && has_failed;
    record.started_unix_ms = status.started_unix_ms;
    record.ended_unix_ms = runs ? 0 : status.ended_unix_ms;
    record.resident_bytes = static_cast<double>(usage.resident_bytes);
    record.cpu_ms = static_cast<double>(usage.cpu_ms);
    record.received_bytes = static_cast<double>(usage.received_bytes.value_or(0));
    record.sent_bytes = static_cast<double>(usage.sent_bytes.value_or(0));
    record.incarnation = status.incarnation;
    record.arguments = without_internal(fmt::format("{}", fmt::join(status.arguments, " ")));
    record.log = below_job(status.log, view.job());
    processes.push_back(std::move(record));
  }
  return processes;
}

void set_first_starts(std::vector<ProcessRecord>& processes) {
  for (ProcessRecord& process : processes) {
    process.begun_unix_ms = process.started_unix_ms;
    for (const MetricsLine& one : process.metrics) {
      if (one.unix_ms > 0) process.begun_unix_ms = std::min(process.begun_unix_ms, one.unix_ms);
    }
  }
  // A job's processes start together; a restarted process knows only its last start.
  std::int64_t begun = std::numeric_limits<std::int64_t>::max();
  for (const ProcessRecord& process : processes) {
    if (process.begun_unix_ms > 0) begun = std::min(begun, process.begun_unix_ms);
  }
  for (ProcessRecord& process : processes) {
    if (process.incarnation > 1) process.begun_unix_ms = begun;
  }
}

RunRecord run_record(const std::optional<JobSettings>& settings,
                     const std::vector<CommandRecord>& commands) {
  if (settings) return settings->record;
  return commands.empty() ? RunRecord() : commands.back().record;
}

Status write_processes(const std::string& folder, const JobView& view) {
  const auto whole = [](double number) { return static_cast<std::uint64_t>(number); };
  std::string text;
  for (const ProcessRecord& process : processes_of(view)) {
    const Json record = Json::object({{"node", process.node},
                                      {"role", process.role},
                                      {"state", process.state},
                                      {"failed", process.failed ? 1 : 0},
                                      {"started_unix_ms", process.started_unix_ms},
                                      {"ended_unix_ms", process.ended_unix_ms},
                                      {"resident_bytes", whole(process.resident_bytes)},
                                      {"cpu_ms", whole(process.cpu_ms)},
                                      {"received_bytes", whole(process.received_bytes)},
                                      {"sent_bytes", whole(process.sent_bytes)},
                                      {"incarnation", process.incarnation},
                                      {"arguments", process.arguments},
                                      {"log", process.log}});
    text += record.text() + "\n";
  }
  return replace_file(folder + "/processes.jsonl", as_bytes(text), 0644);
}

Result<JobRecord> read_job_record(const std::string& folder, const std::string& job) {
  const std::string processes = folder + "/processes.jsonl";
  if (!std::filesystem::exists(processes)) {
    return Error{Errc::kUsage, fmt::format("{} has no results of a job", folder),
                 "fetch them first with paddlectl fetch, from a machine that can reach the nodes"};
  }
  JobRecord record;
  record.job = job;
  record.machines = read_machines(folder);
  record.commands = read_commands(folder);
  std::size_t bytes_left = kAllMetricsBytesMax;
  for (const FlatRecord& line : read_flat_records(processes)) {
    record.processes.push_back(process_of(line, folder, record.machines, bytes_left));
  }
  set_first_starts(record.processes);
  std::vector<JobEvent> of_logs;
  for (const ProcessRecord& process : record.processes) {
    std::ranges::move(log_events(folder, process), std::back_inserter(of_logs));
  }
  record.events = events_of(record, std::move(of_logs));
  for (const std::string name : {"job.toml", kConfigurationOfNode}) {
    auto configuration = read_file(folder + "/" + name, kConfigurationBytesMax);
    if (!configuration) continue;
    record.configuration = *std::move(configuration);
    break;
  }
  record.settings = shown_settings(folder);
  record.run = run_record(record.settings, record.commands);
  return record;
}

bool is_whole_record(const std::string& folder, const JobRecord& record) {
  const bool has_ended = std::ranges::all_of(record.processes, [](const ProcessRecord& process) {
    return process.started_unix_ms == 0 || process.ended_unix_ms > 0;
  });
  std::error_code here, other;
  const auto collected = std::filesystem::last_write_time(folder + "/processes.jsonl", here);
  const auto started = std::filesystem::last_write_time(folder + "/" + kSettingsFile, other);
  return has_ended && (here || other || started <= collected);
}

bool is_record_of(const JobRecord& record, const std::vector<ProcessOnNode>& processes) {
  return std::ranges::all_of(processes, [&](const ProcessOnNode& process) {
    const remote::ProcessStatus& status = process.status;
    const auto found = std::ranges::find(record.processes, status.name, &ProcessRecord::role);
    return found != record.processes.end() && found->started_unix_ms == status.started_unix_ms &&
           found->ended_unix_ms == (is_running(status) ? 0 : status.ended_unix_ms);
  });
}

std::vector<StepOfLine> steps_of(const std::vector<MetricsLine>& metrics) {
  std::vector<StepOfLine> steps;
  StepCount count;
  for (const MetricsLine& line : metrics) {
    const std::uint64_t step = count.at(line);
    steps.push_back({&line, line.step > 0 ? line.step : step});
  }
  return steps;
}

}  // namespace paddle::cli
