#include "cli/dashboard/live_job.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/safe_path.h"
#include "cli/job/folders.h"
#include "cli/job/settings.h"
#include "cli/watch/first_failure.h"
#include "cli/watch/job_state.h"
#include "cli/watch/metrics_line.h"
#include "cli/watch/missing_processes.h"
#include "cli/watch/process_state.h"

namespace paddle::cli {
namespace {

constexpr std::size_t kPointsMin = 200;  // of a process, in a large job
constexpr std::size_t kProcessBytesMin = 1U << 20U;
constexpr std::size_t kLeaderBytes = 16U << 20U;
constexpr std::size_t kConfigurationBytesMax = 256U << 10U;
constexpr std::size_t kLastLinesKept = 4 * kLastLinesShown;
constexpr std::size_t kLastLineBytes = 1'000;
constexpr std::size_t kLogEventsMax = 4'000;  // the last ones, of all processes
constexpr const char* kLeader = "trainer-0";

// A node may name any file in its status.
bool is_file_of(const std::string& path, const std::string& job) {
  return path.starts_with(job_folder(job) + "/") && SafePath::parse(path);
}

Json number_or_null(const std::optional<double>& value) {
  return value ? Json::number(*value) : Json();
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

MetricsLimits limits_of(const std::string& role, std::size_t processes) {
  if (role == kLeader) return {kProcessPointsMax, kLeaderBytes};
  const std::size_t count = std::max<std::size_t>(processes, 1);
  return {std::clamp(kJobPointsMax / count, kPointsMin, kProcessPointsMax),
          std::clamp(kJobBytesMax / count, kProcessBytesMin, kLeaderBytes)};
}

}  // namespace

void LiveJob::want_record(bool wanted) {
  if (wanted == std::exchange(wants_record_, wanted)) return;
  record_ = JobRecord();
  commands_of_run_.reset();
  figures_ = JobFigures();
  figures_are_old_ = events_are_old_ = true;
  states_.clear();
  fields_.clear();
  is_taken_ = false;
  for (auto& [name, process] : processes_) restart_reading(process);
}

void LiveJob::restart_reading(LiveProcess& process) {
  const std::string& log = process.status.log;
  process.metrics.reset();
  process.log.reset();
  if (is_file_of(log, name_)) {
    process.log.emplace(log);
    process.metrics.emplace(metrics_path(log));
  }
  process.metrics_are_begun = process.log_is_begun = false;
  process.metrics_are_over = process.log_is_over = false;
  process.recent.clear();
  process.record = ProcessRecord();
  process.record.role = process.status.name;
  process.kept.reset();
  process.events.reset();
  process.last_lines.clear();
  figures_are_old_ = events_are_old_ = true;
}

void LiveJob::begin_process(LiveProcess& process, const ProcessOnNode& now) {
  const remote::ProcessStatus& before = process.status;
  // The node of a resumed job may be another machine with other files, under the same name.
  const bool is_elsewhere = process.member != now.member || before.log != now.status.log ||
                            before.name != now.status.name || before.run != now.status.run;
  const bool is_changed = is_elsewhere || before.state != now.status.state ||
                          before.incarnation != now.status.incarnation || is_running(now.status);
  process.member = now.member;
  process.status = now.status;
  process.is_seen = true;
  if (is_changed) process.metrics_are_over = process.log_is_over = is_taken_ = false;
  if (is_elsewhere) restart_reading(process);
}

void LiveJob::begin(const std::vector<ProcessOnNode>& processes) {
  for (auto& [name, process] : processes_) {
    process.is_seen = process.has_more = process.has_new_lines = process.has_new_events = false;
  }
  runs_ = std::ranges::any_of(processes, is_running, &ProcessOnNode::status);
  std::uint64_t run = 0;
  settings_from_.reset();
  for (const ProcessOnNode& now : processes) {
    LiveProcess& process = processes_[now.status.name];
    // Two nodes may have records of the same process; the one of the last run counts.
    if (process.is_seen && process.status.run >= now.status.run) continue;
    begin_process(process, now);
    run = std::max(run, now.status.run);
    if (!is_pserver(now.status) && (now.status.name == kLeader || !settings_from_))
      settings_from_ = now.member;
  }
  if (!processes.empty() && run != std::exchange(run_number_, run)) {
    has_settings_ = false;
    size_ = {};
  }
  // The metrics are in record_ between the rounds.
  for (ProcessRecord& shown : record_.processes) {
    const auto found = processes_.find(shown.role);
    if (found == processes_.end() || !found->second.kept || shown.metrics.empty()) continue;
    found->second.record.metrics = std::exchange(shown.metrics, {});
  }
}

Status LiveJob::read(Member& member, std::size_t index, const MachineRecord& machine) {
  remote::AgentClient& client = *member.client;
  if (settings_from_ == index && !has_settings_) PADDLE_TRY_STATUS(read_settings(client));
  for (auto& [name, process] : processes_) {
    if (!process.is_seen || process.member != index || !process.log) continue;
    PADDLE_TRY_STATUS(read_metrics(client, process));
    if (wants_record_) PADDLE_TRY_STATUS(read_log(client, process, machine));
  }
  return {};
}

Status LiveJob::read_settings(remote::AgentClient& client) {
  run_ = record_on_node(client, name_);
  auto text = client.read_file(workspace_folder(name_) + "/job.toml", 0, kConfigurationBytesMax);
  if (!text && text.error().code == Errc::kUnreachable) return std::move(text).error();
  configuration_ = text ? std::move(text->data) : "";
  has_settings_ = true;
  fields_.clear();
  is_taken_ = false;
  return {};
}

Status LiveJob::read_metrics(remote::AgentClient& client, LiveProcess& process) {
  const bool runs = is_running(process.status);
  const bool is_wanted = wants_record_ || runs_ || process.status.name == kLeader;
  if (process.metrics_are_over || !is_wanted) return {};
  for (std::size_t bytes = 0; bytes < kRoundBytesMax; bytes += kLogChunkBytes) {
    const bool is_first = !std::exchange(process.metrics_are_begun, true);
    auto lines = is_first && !wants_record_
                     ? process.metrics->tail(client, kLinesLookedAt, kBytesLookedAt)
                     : process.metrics->poll(client);
    if (!lines && lines.error().code == Errc::kUnreachable) return std::move(lines).error();
    if (!lines) process.metrics_are_begun = false;  // none was written yet
    if (lines) take_lines(*lines, process);
    process.has_more = lines && !process.metrics->at_end();
    if (process.has_more) continue;
    process.metrics_are_over = !runs;
    break;
  }
  if (!process.metrics_are_over) return {};
  if (auto rest = process.metrics->rest()) take_lines({*std::move(rest)}, process);
  return {};
}

void LiveJob::take_lines(const std::vector<LogLine>& lines, LiveProcess& process) {
  std::vector<MetricsLine> parsed;
  for (const LogLine& line : lines) {
    auto one = parse_metrics(line.text);
    if (!one) continue;
    const bool is_event = one->kind == "test" || one->kind == "save";
    process.has_new_events = process.has_new_events || is_event;
    parsed.push_back(*std::move(one));
  }
  if (parsed.empty()) return;
  process.has_new_lines = true;
  auto& recent = process.recent;
  const std::size_t shown = std::min(parsed.size(), kLinesLookedAt);
  recent.insert(recent.end(), parsed.end() - static_cast<std::ptrdiff_t>(shown), parsed.end());
  if (recent.size() > 2 * kLinesLookedAt)
    recent.erase(recent.begin(), recent.end() - static_cast<std::ptrdiff_t>(kLinesLookedAt));
  if (!wants_record_) return;
  if (!process.kept) process.kept.emplace(limits_of(process.status.name, processes_.size()));
  for (MetricsLine& line : parsed) process.kept->add(std::move(line), process.record);
}

Status LiveJob::read_log(remote::AgentClient& client, LiveProcess& process,
                         const MachineRecord& machine) {
  if (process.log_is_over) return {};
  if (!process.events) {
    ProcessRecord known;
    known.role = process.status.name;
    known.started_unix_ms = process.status.started_unix_ms;
    known.utc_offset_s = machine.utc_offset_s;
    process.events.emplace(known);
  }
  const auto count = [&] { return process.events->found().size(); };
  const auto take = [&](const LogLine& line) {
    process.last_lines.push_back(line.text.substr(0, kLastLineBytes));
    if (process.last_lines.size() > kLastLinesKept) process.last_lines.pop_front();
    const auto last = process.events->found().empty() ? 0 : process.events->found().back().unix_ms;
    const std::size_t before = count();
    process.events->take(line.text, line.unix_ms);
    process.has_new_events = process.has_new_events || count() != before ||
                             (before > 0 && process.events->found().back().unix_ms != last);
  };
  bool is_at_end = false;
  for (std::size_t bytes = 0; bytes < kRoundBytesMax && !is_at_end; bytes += kLogChunkBytes) {
    const bool is_first = !std::exchange(process.log_is_begun, true);
    auto lines =
        is_first ? process.log->tail(client, SIZE_MAX, kLogEventsBytes) : process.log->poll(client);
    if (!lines && lines.error().code == Errc::kUnreachable) return std::move(lines).error();
    if (!lines) process.log_is_begun = false;
    for (const LogLine& line : lines ? *lines : std::vector<LogLine>()) take(line);
    is_at_end = !lines || process.log->at_end();
  }
  process.has_more = process.has_more || !is_at_end;
  process.log_is_over = is_at_end && !is_running(process.status);
  if (!process.log_is_over) return {};
  if (const auto rest = process.log->rest()) take(*rest);
  return {};
}

bool LiveJob::has_more() const {
  return std::ranges::any_of(processes_, [](const auto& one) { return one.second.has_more; });
}

// Whether nothing can have changed since the last take().
bool LiveJob::is_at_rest() const {
  if (!is_taken_ || runs_) return false;
  return std::ranges::none_of(processes_, [](const auto& one) {
    return one.second.has_new_lines || one.second.has_new_events;
  });
}

// Forgets the processes that nodes no longer have, but not those of nodes that do not answer.
void LiveJob::forget_lost(const ClusterSession& session, const ClusterLook& look) {
  const auto erased = std::erase_if(processes_, [&](const auto& one) {
    const std::size_t member = one.second.member;
    return !one.second.is_seen && (look.nodes[member] || session.members()[member].absent);
  });
  const auto unseen = static_cast<std::size_t>(
      std::ranges::count_if(processes_, [](const auto& one) { return !one.second.is_seen; }));
  if (unseen != std::exchange(unseen_, unseen) || erased > 0) is_taken_ = false;
}

void LiveJob::take(Context& context, ClusterSession& session, ClusterLook look,
                   const std::vector<MachineRecord>& machines, const std::string& output) {
  forget_lost(session, look);
  unreachable_.clear();
  for (const auto& [name, process] : processes_) {
    if (!process.is_seen) unreachable_.insert(session.members()[process.member].spec.name);
  }
  const UnseenNodes unseen{.any = session.unreachable() > 0};
  const JobSize size = size_of_job(look.processes);
  size_.trainers = std::max(size_.trainers, size.trainers);
  size_.pservers = std::max(size_.pservers, size.pservers);
  // A node that does not answer changes nothing about a job that has ended.
  const std::string state = job_state(look.processes, unseen, size.all_seen);
  if (state != "unknown" || !has_ended_) {
    const bool has_failed = state.starts_with("failed");
    state_ = state;
    has_ended_ = state == "done" || state == "stopped" || has_failed;
    failed_ = has_failed ? first_failure(look.processes)->status.name : "";
  }
  if (is_at_rest()) {
    for (ProcessRecord& shown : record_.processes) {
      const auto found = processes_.find(shown.role);
      if (found != processes_.end() && found->second.kept)
        shown.metrics = std::move(found->second.record.metrics);
    }
    live_ = live_json(session);
    return;
  }
  stalled_ = stalled_processes(look.processes);
  started_unix_ms_ = 0;
  for (const auto& [name, process] : processes_) {
    const std::int64_t started = process.status.started_unix_ms;
    if (started > 0 && (started_unix_ms_ == 0 || started < started_unix_ms_))
      started_unix_ms_ = started;
  }
  view_.take(context, session, std::move(look), [&](const ProcessOnNode& process) {
    const auto& lines = processes_[process.status.name].recent;
    return std::span(lines).last(std::min(lines.size(), kLinesLookedAt));
  });
  if (auto progress = progress_seen(); progress || unseen_ == 0) progress_ = progress;
  if (wants_record_) update_record(session, machines, output);
  live_ = live_json(session);
  is_taken_ = true;
}

void LiveJob::update_record(const ClusterSession& session,
                            const std::vector<MachineRecord>& machines, const std::string& output) {
  record_.job = name_;
  record_.configuration = configuration_;
  record_.run = run_;
  if (std::exchange(commands_of_run_, run_number_) != run_number_)
    record_.commands = read_commands(fmt::format("{}/{}", output, name_));
  const std::size_t machines_before = record_.machines.size();
  std::set<std::string> nodes;
  for (const auto& [name, process] : processes_)
    nodes.insert(session.members()[process.member].spec.name);
  record_.machines.clear();
  for (const MachineRecord& machine : machines) {
    if (nodes.contains(machine.node)) record_.machines.push_back(machine);
  }
  update_processes(session, machines);
  const bool has_changed =
      update_events() || record_.machines.size() != machines_before || fields_.empty();
  const bool has_new_figures = std::exchange(figures_are_old_, false);
  if (has_new_figures) figures_ = figures_of(record_);
  if (runs()) figures_.slow = slow_trainers(view_.processes());  // now, as `status` has it
  if (has_new_figures || has_changed) {
    fields_ = job_fields(record_, figures_);
    return;
  }
  const auto value_of = [&](std::string_view key) -> Json& {
    return std::ranges::find(fields_, key, &Json::Fields::value_type::first)->second;
  };
  value_of("processes") = processes_json(record_, figures_);
  value_of("slow") = slow_json(figures_);
}

void LiveJob::update_processes(const ClusterSession& session,
                               const std::vector<MachineRecord>& machines) {
  std::vector<ProcessRecord> now = processes_of(view_);
  std::map<std::string, const ProcessView*> views;
  for (const ProcessView& view : view_.processes()) views[view.status.name] = &view;
  for (const ProcessRecord& before : record_.processes) {
    const auto found = processes_.find(before.role);
    if (found == processes_.end() || found->second.is_seen) continue;
    now.push_back(before);
    now.back().metrics.clear();
  }
  std::ranges::stable_sort(now, [&](const ProcessRecord& a, const ProcessRecord& b) {
    return comes_before(processes_[a.role].status, processes_[b.role].status);
  });
  for (ProcessRecord& process : now) {
    LiveProcess& read = processes_[process.role];
    figures_are_old_ = figures_are_old_ || read.has_new_lines;
    if (read.kept) process.metrics = std::move(read.record.metrics);
    process.totals = read.record.totals;
    process.utc_offset_s = machines[read.member].utc_offset_s;
    const auto view = views.find(process.role);
    process.now =
        view != views.end()
            ? now_of(*view->second)
            : Json::object({{"state", fmt::format("node {} does not answer",
                                                  session.members()[read.member].spec.name)},
                            {"is_fault", true},
                            {"waits_for", ""}});
  }
  set_first_starts(now);
  const bool are_same =
      std::ranges::equal(now, record_.processes, {}, &ProcessRecord::role, &ProcessRecord::role);
  if (are_same) {
    std::ranges::move(now, record_.processes.begin());  // figures_ points at these
  } else {
    record_.processes = std::move(now);
    figures_are_old_ = true;
  }
}

bool LiveJob::update_events() {
  std::string states;
  for (const ProcessRecord& process : record_.processes) {
    states += fmt::format("{} {} {} {} {} {}\n", process.role, process.begun_unix_ms,
                          process.started_unix_ms, process.ended_unix_ms, process.failed,
                          process.totals ? process.totals->long_pauses() : 0);
  }
  for (const auto& [name, process] : processes_) {
    events_are_old_ = events_are_old_ || process.has_new_events;
  }
  events_are_old_ = states != std::exchange(states_, states) || events_are_old_;
  if (!std::exchange(events_are_old_, false)) return false;
  std::vector<JobEvent> of_logs;
  for (const auto& [name, process] : processes_) {
    if (!process.events) continue;
    of_logs.insert(of_logs.end(), process.events->found().begin(), process.events->found().end());
  }
  if (of_logs.size() > kLogEventsMax) {
    std::ranges::stable_sort(of_logs, {}, &JobEvent::unix_ms);
    of_logs.erase(of_logs.begin(), of_logs.end() - static_cast<std::ptrdiff_t>(kLogEventsMax));
  }
  record_.events = events_of(record_, std::move(of_logs));
  return true;
}

Json LiveJob::now_of(const ProcessView& process) const {
  const auto& progress = process.progress;
  const auto& usage = process.status.usage;
  const bool runs = is_running(process.status);
  std::optional<double> cost;
  if (progress && progress->has_cost) cost = progress->cost;
  return Json::object(
      {{"state", process.state_text()},
       {"is_fault",
        runs ? hangs(process.pace.pace) : !ended_well(process.status) && !process.status.stopped},
       {"waits_for", process.pace.waits_for.empty() ? "" : process.pace.waits_for.front()},
       {"pass", progress ? Json(progress->pass) : Json()},
       {"pass_done", progress ? number_or_null(progress->pass_done) : Json()},
       {"batch", progress ? Json(progress->batch) : Json()},
       {"cost", number_or_null(cost)},
       {"rate", number_or_null(process.rate())},
       {"heard_ms", process.heard_ms_ago},
       {"cores", number_or_null(process.cores)},
       {"memory_bytes", usage && runs ? Json(usage->resident_bytes) : Json()},
       {"in_per_s", number_or_null(process.received_per_second)},
       {"out_per_s", number_or_null(process.sent_per_second)}});
}

Json LiveJob::live_json(const ClusterSession& session) const {
  std::vector<Json> stalls;
  for (const std::string& line : view_.stalls()) stalls.emplace_back(line);
  return Json::object(
      {{"running", runs()},
       {"stalls", Json::list(stalls)},
       {"left_ms", view_.left_ms()},
       {"loss", text_or_null(view_.loss() ? view_.loss()->message : "")},
       {"failure", failure_json(session)},
       {"broken_start",
        text_or_null(view_.broken_start() ? describe(*view_.broken_start(), name_) : "")},
       {"diverged_to", number_or_null(view_.diverged_to())},
       {"is_diverged", view_.diverged_to().has_value()},
       {"unreachable", Json::list({unreachable_.begin(), unreachable_.end()})}});
}

std::string LiveJob::loss() const {
  if (view_.loss()) return view_.loss()->message;
  if (unreachable_.empty()) return "";
  return fmt::format("{} {} not answer", fmt::join(unreachable_, ", "),
                     unreachable_.size() == 1 ? "does" : "do");
}

Json LiveJob::failure_json(const ClusterSession& session) const {
  const auto found = processes_.find(failed_);
  if (found == processes_.end()) return {};
  const auto& [name, process] = *found;
  const Error error = failure_error(process.status, session.members()[process.member].spec.name);
  const auto lines =
      lines_about(process.status, {process.last_lines.begin(), process.last_lines.end()});
  return Json::object({{"process", name},
                       {"cause", error.message},
                       {"hint", error.hint},
                       {"lines", Json::list({lines.begin(), lines.end()})}});
}

Json::Fields LiveJob::fields() const {
  Json::Fields fields = fields_;
  fields.emplace_back("live", live_);
  return fields;
}

Json::Fields LiveJob::fields_without_record(const std::string& why) const {
  JobRecord record;
  record.job = name_;
  record.run = run_;
  Json::Fields fields = job_fields(record, figures_of(record));
  fields.emplace_back("live", Json::object({{"running", runs()},
                                            {"stalls", Json::list({why})},
                                            {"left_ms", view_.left_ms()},
                                            {"loss", Json()},
                                            {"failure", Json()},
                                            {"broken_start", Json()},
                                            {"diverged_to", Json()},
                                            {"is_diverged", false},
                                            {"unreachable", Json::list({})}}));
  return fields;
}

// On a node that does not answer, a process runs as long as nothing else is known.
bool LiveJob::runs() const {
  return std::ranges::any_of(processes_,
                             [](const auto& one) { return is_running(one.second.status); });
}

std::optional<JobProgress> LiveJob::progress_seen() const {
  std::optional<JobProgress> progress = view_.progress();
  for (const ProcessView& process : view_.processes()) {
    if (progress || process.status.name != kLeader || !process.progress) continue;
    progress = JobProgress{process.progress->pass, process.progress->passes,
                           process.progress->pass_done, 0, std::nullopt};
    if (process.progress->has_cost) progress->cost = process.progress->cost;
    if (process.last && process.last->kind == "pass")
      progress->cost = of_whole_job(*process.last).cost;
  }
  return progress;
}

Json LiveJob::summary() const {
  const auto& progress = progress_;
  const bool is_running = runs();
  return Json::object(
      {{"job", name_},
       {"state", state_},
       {"is_running", is_running},
       {"has_failed", state_.starts_with("failed")},
       {"pass", progress ? Json(progress->pass) : Json()},
       {"passes", progress && progress->passes > 0 ? Json(progress->passes) : Json()},
       {"pass_done", progress ? number_or_null(progress->pass_done) : Json()},
       {"rate", progress && is_running ? Json::number(progress->examples_per_second) : Json()},
       {"cost", progress ? number_or_null(progress->cost) : Json()},
       {"left_ms", is_running ? Json(view_.left_ms()) : Json()},
       {"started_ms", started_unix_ms_},
       {"trainers", size_.trainers},
       {"pservers", size_.pservers},
       {"tags", Json::list({run_.tags.begin(), run_.tags.end()})},
       {"note", run_.note},
       {"git", run_.git.text()},
       {"stalled", Json::list({stalled_.begin(), stalled_.end()})},
       {"loss", text_or_null(loss())}});
}

std::optional<LiveJob::LogFile> LiveJob::log_of(const std::string& process) const {
  const auto found = processes_.find(process);
  if (found == processes_.end() || !found->second.log) return std::nullopt;
  return LogFile{found->second.member, found->second.status.log, !is_running(found->second.status)};
}

std::vector<std::size_t> LiveJob::members() const {
  std::set<std::size_t> members;
  for (const auto& [name, process] : processes_) members.insert(process.member);
  return {members.begin(), members.end()};
}

}  // namespace paddle::cli
