#include "cli/watch/view.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "cli/console/time_text.h"
#include "cli/watch/log_reader.h"
#include "cli/watch/process_state.h"

namespace paddle::cli {
namespace {

// The middle value, or the mean of the two in the middle. REQUIRES: `values` is not empty.
double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

// After this time without metrics, a user's own program that has written some counts as silent.
constexpr std::int64_t kOwnSilenceMs = 60'000;
constexpr std::size_t kPointsOfARate = 5;

std::optional<double> usual(std::span<const MetricsLine> lines, std::string_view key) {
  std::vector<double> rates;
  for (auto line = lines.rbegin(); line != lines.rend() && rates.size() < kPointsOfARate; ++line) {
    if (line->kind != "train" && line->kind != "pass") continue;
    if (const auto rate = line->number(key)) rates.push_back(*rate);
  }
  if (rates.empty()) return std::nullopt;
  return median_of(std::move(rates));
}

void take_metrics(std::span<const MetricsLine> lines, ProcessView& view) {
  for (const MetricsLine& line : lines) {
    if (line.kind == "test") view.last_test = line;
    if (line.kind == "pserver") {
      const double port = line.number("port").value_or(0);
      if (port >= 0 && port < 65536) view.ports[static_cast<std::uint64_t>(port)] = line;
    }
    if (line.kind != "train" && line.kind != "pass") continue;
    view.last = line;
    if (const auto rate = line.number("examples_per_second")) view.examples_per_second = rate;
  }
  view.usual_rate = usual(lines, "examples_per_second");
  view.usual_busy_rate = usual(lines, "examples_per_busy_second");
}

// The newest pass with a whole snapshot on the node, if the latest pass could not be saved.
std::optional<std::uint64_t> saved_pass(Member& member, const remote::ProcessStatus& status) {
  if (!status.progress || status.progress->save_failure.empty() || !member.client)
    return std::nullopt;
  constexpr std::string_view kBegin = "pass-";  // pass-00002/MANIFEST
  std::optional<std::uint64_t> newest;
  const auto files = member.client->list_sizes("jobs/" + status.job + "/output");
  for (const remote::FileEntry& file : files ? *files : std::vector<remote::FileEntry>()) {
    const char* const end = file.path.data() + file.path.size();
    std::uint64_t pass = 0;
    if (!file.path.starts_with(kBegin)) continue;
    const auto number = std::from_chars(file.path.data() + kBegin.size(), end, pass);
    if (number.ec == std::errc() && std::string_view(number.ptr, end) == "/MANIFEST")
      newest = std::max(newest.value_or(0), pass);
  }
  return newest;
}

// Uses the rates that the trainer reports every second: log points may be minutes apart, and only
// the median of several gives a rate.
void take_reported_rates(ProcessView& view) {
  const auto& progress = view.status.progress;
  if (!progress || !(progress->examples_per_busy_second > 0)) return;
  view.usual_rate = progress->examples_per_second;
  view.usual_busy_rate = progress->examples_per_busy_second;
}

std::vector<MetricsLine> newest_metrics(remote::AgentClient& client, const std::string& path) {
  std::vector<MetricsLine> found;
  const auto lines = LogReader(path).tail(client, kLinesLookedAt, kBytesLookedAt);
  if (!lines) return found;  // none was written yet
  for (const LogLine& line : *lines) {
    if (auto parsed = parse_metrics(line.text)) found.push_back(*std::move(parsed));
  }
  return found;
}

std::optional<double> per_second(const std::optional<std::uint64_t>& now,
                                 const std::optional<std::uint64_t>& before, double seconds) {
  if (!now || !before || *now < *before || seconds <= 0) return std::nullopt;
  return static_cast<double>(*now - *before) / seconds;
}

// All trainers end with the same pass. The last report of one may be of an earlier pass, and only
// trainer 0 writes a line of metrics for each pass.
void show_common_end(std::vector<ProcessView>& processes) {
  const auto is_done = [](const ProcessView& process) {
    return !is_pserver(process.status) && process.status.reports && ended_well(process.status) &&
           process.progress;
  };
  std::uint32_t last = 0;
  for (const ProcessView& process : processes) {
    if (is_done(process)) last = std::max(last, process.progress->pass);
  }
  for (ProcessView& process : processes) {
    if (is_done(process)) process.progress->pass = last;
  }
}

}  // namespace

std::vector<SlowTrainer> slow_trainers(const std::vector<TrainerRate>& trainers) {
  using Rate = std::optional<double> TrainerRate::*;
  // The median of the others, if the trainer's own rate is well below it.
  const auto faster = [&](const TrainerRate& trainer, Rate rate) -> std::optional<double> {
    std::vector<double> others;
    for (const TrainerRate& other : trainers) {
      if (&other != &trainer && other.*rate) others.push_back(*(other.*rate));
    }
    if (others.empty() || !(trainer.*rate)) return {};
    const double median = median_of(std::move(others));
    return *(trainer.*rate) < kSlowRatio * median ? std::optional(median) : std::nullopt;
  };
  const bool busy = std::ranges::all_of(
      trainers, [](const TrainerRate& trainer) { return trainer.busy || !trainer.wall; });
  const Rate rate = busy ? &TrainerRate::busy : &TrainerRate::wall;
  std::vector<SlowTrainer> found;
  for (const TrainerRate& trainer : trainers) {
    const auto median = faster(trainer, rate);
    if (!median) continue;
    const double own = *(trainer.*rate);
    const bool waits_mostly = busy && trainer.wall.value_or(0) < kBusyRatioMin * own;
    if (!waits_mostly || faster(trainer, &TrainerRate::wall))
      found.push_back({trainer.node, trainer.role, own, *median, busy});
  }
  return found;
}

std::string describe(const SlowTrainer& slow) {
  return fmt::format("{} on {} is slow: {:.0f} examples/s{}, {:.0f} % of the others' median {:.0f}",
                     slow.role, slow.node, slow.rate, slow.busy ? " while not waiting" : "",
                     100 * slow.rate / slow.median, slow.median);
}

std::vector<SlowTrainer> slow_trainers(const std::vector<ProcessView>& processes) {
  std::vector<TrainerRate> rates;
  for (const ProcessView& process : processes) {
    if (!is_running(process.status) || is_pserver(process.status)) continue;
    // Rates from before a stall mean nothing; hanging and waiting trainers are reported as such.
    if (hangs(process.pace.pace) || process.pace.pace == Pace::kWaiting) return {};
    rates.push_back(
        {process.node, process.status.name, process.usual_rate, process.usual_busy_rate});
  }
  return slow_trainers(rates);
}

std::string ProcessView::state_text() const {
  if (!is_running(status)) return describe_state(status);
  std::string text = describe(pace);
  if (!text.empty() && pace.pace != Pace::kStarting) return text;
  if (!status.reports && last && heard_ms_ago.value_or(0) > kOwnSilenceMs)
    return "silent for " + span_text(*heard_ms_ago);
  return describe_state(status);
}

std::optional<double> ProcessView::rate() const {
  if (!is_running(status)) return examples_per_second;
  if (hangs(pace.pace) || pace.pace == Pace::kWaiting) return 0;
  if (!status.reports && heard_ms_ago.value_or(0) > kOwnSilenceMs && last) return 0;
  if (status.progress && !is_pserver(status)) return status.progress->examples_per_second;
  return examples_per_second;
}

std::optional<JobProgress> JobView::progress() const {
  std::vector<remote::Progress> trainers;
  for (const ProcessView& process : processes_) {
    if (!is_running(process.status) || is_pserver(process.status) || !process.progress) continue;
    trainers.push_back(*process.progress);
    trainers.back().examples_per_second = process.rate().value_or(0);
  }
  return job_progress(trainers);
}

std::optional<std::int64_t> JobView::left_ms() const {
  const auto now = progress();
  if (!now || now->passes == 0) return std::nullopt;
  return left_.left_ms(static_cast<double>(now->passes));
}

std::vector<std::string> JobView::stalls() const {
  Paces paces;
  std::map<std::string, std::string> nodes;
  for (const ProcessView& process : processes_) {
    paces[process.status.name] = process.pace;
    nodes[process.status.name] = process.node;
  }
  return describe_stalls(paces, nodes);
}

ProcessView JobView::view_of(const ProcessOnNode& process, const std::string& node,
                             const std::optional<NodeLook>& look) {
  ProcessView view;
  view.node = node;
  view.status = process.status;
  if (!look || !process.status.usage) return view;
  const remote::Usage& usage = *process.status.usage;
  const std::int64_t now = look->usage.unix_ms;
  if (!is_running(process.status)) return view;
  const auto& progress = process.status.progress;
  if (usage.last_output_unix_ms > 0)
    view.heard_ms_ago = std::max<std::int64_t>(0, now - usage.last_output_unix_ms);
  if (progress)
    view.heard_ms_ago = std::min(process.status.silent_ms, view.heard_ms_ago.value_or(INT64_MAX));
  const std::int64_t lived = now - process.status.started_unix_ms;
  if (lived > 0) view.cores = static_cast<double>(usage.cpu_ms) / static_cast<double>(lived);
  const auto last = last_.find(process.status.name);
  if (last != last_.end() && now > last->second.unix_ms) {
    const auto passed = static_cast<double>(now - last->second.unix_ms);
    const remote::Usage& old = last->second.usage;
    view.received_per_second = per_second(usage.received_bytes, old.received_bytes, passed / 1000);
    view.sent_per_second = per_second(usage.sent_bytes, old.sent_bytes, passed / 1000);
    if (usage.cpu_ms >= old.cpu_ms) {
      view.cores = static_cast<double>(usage.cpu_ms - old.cpu_ms) / passed;
    }
  }
  last_[process.status.name] = {usage, now};
  return view;
}

void JobView::look(Context& context, ClusterSession& session) {
  ClusterLook look = session.look(context.clock, job_);
  std::vector<std::vector<MetricsLine>> metrics(look.processes.size());
  (void)session.each([&](Member& member) -> Status {
    for (std::size_t i = 0; i < metrics.size(); ++i) {
      const ProcessOnNode& process = look.processes[i];
      if (&session.members()[process.member] != &member) continue;
      metrics[i] = newest_metrics(*member.client, metrics_path(process.status.log));
    }
    return {};
  });
  std::map<std::pair<std::size_t, std::string>, std::span<const MetricsLine>> newest;
  for (std::size_t i = 0; i < metrics.size(); ++i)
    newest[{look.processes[i].member, look.processes[i].status.name}] = metrics[i];
  take(context, session, std::move(look), [&](const ProcessOnNode& process) {
    return newest[{process.member, process.status.name}];
  });
}

void JobView::take(Context& context, ClusterSession& session, ClusterLook look,
                   const NewestMetrics& newest) {
  std::ranges::stable_sort(look.processes, [](const ProcessOnNode& a, const ProcessOnNode& b) {
    return comes_before(a.status, b.status);
  });
  std::vector<std::span<const MetricsLine>> metrics;
  std::vector<std::optional<std::uint64_t>> saved;
  for (const ProcessOnNode& process : look.processes) {
    metrics.push_back(newest(process));
    saved.push_back(saved_pass(session.members()[process.member], process.status));
  }
  auto lost = look_for_lost_nodes(context, session, job_, look.processes, places_);
  broken_start_.reset();
  if (!lost || !lost->were_seen) broken_start_ = cli::broken_start(session, look.processes);
  if (broken_start_) broken_start_ = find_broken_start(context, session, job_);
  loss_.reset();
  if (lost && !broken_start_) loss_ = std::move(lost->error);
  missing_ = missing_processes(look.processes, places_);
  places_.note(session, look.processes);
  const Paces paces = paces_of(look.processes);
  processes_.clear();
  trail_ = CostTrail();
  diverged_to_.reset();
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    const ProcessOnNode& process = look.processes[i];
    const auto& node = look.nodes[process.member];
    ProcessView view = view_of(process, session.members()[process.member].spec.name, node);
    take_metrics(metrics[i], view);
    view.saved_pass = saved[i];
    take_reported_rates(view);
    const bool runs = is_running(process.status);
    if (runs && node && !metrics[i].empty() && metrics[i].back().unix_ms > 0) {
      const std::int64_t ago =
          std::max<std::int64_t>(0, node->usage.unix_ms - metrics[i].back().unix_ms);
      view.heard_ms_ago = std::min(ago, view.heard_ms_ago.value_or(ago));
    }
    if (const auto pace = paces.find(process.status.name); pace != paces.end())
      view.pace = pace->second;
    if (!is_pserver(process.status)) view.progress = process.status.progress;
    if (!view.progress && view.last) view.progress = progress_of(*view.last);
    if (view.progress && view.progress->passes == 0) view.progress->passes = passes_of(metrics[i]);
    // A trainer that has ended well has finished its pass, after its last report.
    if (ended_well(process.status) && view.progress && view.progress->pass_done)
      view.progress->pass_done = 1;
    // Reports arrive once a second, and none at the end; the last line of the metrics has the end.
    if (!runs && view.progress && view.last && view.last->pass >= view.progress->pass) {
      const bool is_later = view.last->pass > view.progress->pass;
      view.progress->batch =
          is_later ? view.last->batch : std::max(view.progress->batch, view.last->batch);
      view.progress->pass = static_cast<std::uint32_t>(view.last->pass);
    }
    if (process.status.name == "trainer-0") {
      watch_cost(metrics[i], process.status.reports);
      take_history(metrics[i], view.progress, process.status.started_unix_ms);
    }
    processes_.push_back(std::move(view));
  }
  show_common_end(processes_);
}

// reports: the metrics are the engine's, whose every line has a cost; a line of a user's own
// program may have none.
void JobView::watch_cost(std::span<const MetricsLine> lines, bool reports) {
  for (const MetricsLine& line : lines) {
    if (line.kind != "train" && line.kind != "pass") continue;
    const auto cost = line.number("current_cost") ? line.number("current_cost") : line.cost;
    if (!cost && !line.cost_is_null && !reports) continue;
    diverged_to_.reset();
    const double shown = cost.value_or(std::nan(""));
    if (diverges(shown, line.number("first_cost"))) diverged_to_ = shown;
  }
}

void JobView::take_history(std::span<const MetricsLine> lines,
                           const std::optional<remote::Progress>& now,
                           std::int64_t started_unix_ms) {
  const auto add = [&](const remote::Progress& progress) {
    if (!progress.pass_done || progress.unix_ms <= history_until_ms_) return;
    // The pause before a restart or a resume is not part of the pace.
    if (history_until_ms_ < started_unix_ms) left_.interrupt();
    history_until_ms_ = progress.unix_ms;
    left_.add(progress.unix_ms, progress.pass + *progress.pass_done);
  };
  for (const MetricsLine& line : lines) {
    const auto progress = progress_of(line);
    if (!progress) continue;
    trail_.add(progress->cost);
    add(*progress);
  }
  if (now) add(*now);
}

bool JobView::any_running() const {
  return std::ranges::any_of(processes_, [](const ProcessView& p) { return is_running(p.status); });
}

std::vector<GpuVariable> gpu_variables(const std::vector<ProcessView>& processes) {
  std::map<std::tuple<std::string, std::string, remote::VariableSource>, std::vector<std::string>>
      trainers;
  for (const ProcessView& process : processes) {
    if (is_pserver(process.status)) continue;
    for (const auto& [name, value, source] : process.status.gpu_variables)
      trainers[{name, value, source}].push_back(process.status.name);
  }
  std::vector<GpuVariable> variables;
  for (auto& [variable, names] : trainers) {
    const auto& [name, value, source] = variable;
    variables.push_back({name, value, source, std::move(names)});
  }
  const bool has_gpus = std::ranges::any_of(variables, [](const GpuVariable& variable) {
    return !variable.name.starts_with("NCCL_") ||
           variable.source != remote::VariableSource::kPaddlectl;
  });
  return has_gpus ? variables : std::vector<GpuVariable>();
}

std::string_view source_text(remote::VariableSource source) {
  switch (source) {
    case remote::VariableSource::kCommandLine:
      return "--env";
    case remote::VariableSource::kClusterFile:
      return "cluster file";
    case remote::VariableSource::kNode:
      return "login environment";
    case remote::VariableSource::kPaddlectl:
      break;
  }
  return "paddlectl";
}

}  // namespace paddle::cli
