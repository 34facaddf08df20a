#include "cli/watch/feed.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "cli/console/console.h"
#include "cli/console/time_text.h"
#include "cli/watch/log_line.h"
#include "cli/watch/log_reader.h"
#include "cli/watch/process_state.h"

namespace paddle::cli {
namespace {

// A user's own program may write its metrics seldom; a rate older than this is not shown.
constexpr std::int64_t kRateAgeMaxMs = 60'000;

// Smaller times in milliseconds are before the year 1974; such a number counts seconds.
constexpr std::int64_t kSecondsMax = 100'000'000'000;

// Whether a line of a user's own program lacks the time in milliseconds.
bool has_no_time(const MetricsLine& line, const remote::ProcessStatus& status) {
  return line.unix_ms == 0 || (line.unix_ms < kSecondsMax && status.started_unix_ms > kSecondsMax);
}

// Whether the process has written the line since its start. Lines without a time count as such.
bool is_of_this_run(const MetricsLine& line, const remote::ProcessStatus& status) {
  return has_no_time(line, status) || line.unix_ms >= status.started_unix_ms;
}

// Joins the parts with two spaces; drops parts from the end until the line fits.
std::string fitted(std::vector<std::string> parts, std::size_t columns) {
  std::erase(parts, "");
  std::string line = fmt::format("{}", fmt::join(parts, "  "));
  while (columns > 0 && parts.size() > 1 && display_width(line) >= columns) {
    parts.pop_back();
    line = fmt::format("{}", fmt::join(parts, "  "));
  }
  return line;
}

// A summary of a running job for a command that did not follow it.

constexpr std::size_t kRestartsShown = 5;
constexpr std::size_t kLinesTold = 5;
constexpr std::uint64_t kLogBytesLookedAt = 16U << 10U;

void tell_restarts(Context& context, ClusterSession& session,
                   const std::vector<ProcessOnNode>& processes) {
  struct Shown {
    std::int64_t ms_ago;
    std::string text;
  };
  std::vector<Shown> all;
  for (const auto& [member, status] : processes) {
    for (const remote::Restart& restart : status.restarts) {
      if (restart.failures == 0 && !restart.ordered)
        continue;  // a lost peer's own restart is printed instead
      all.push_back({restart.age_ms,
                     fmt::format("{} on {} {}", status.name, session.members()[member].spec.name,
                                 describe(restart, status.restarts_allowed))});
    }
  }
  std::ranges::stable_sort(all, std::ranges::greater(), &Shown::ms_ago);
  if (all.size() > kRestartsShown)
    context.console.note(counted(all.size() - kRestartsShown, "earlier restart") + " not shown");
  for (std::size_t i = all.size() - std::min(all.size(), kRestartsShown); i < all.size(); ++i)
    context.console.note(fmt::format("{} ago: {}", span_text(all[i].ms_ago), all[i].text));
}

// Prints the end of the log of trainer 0, which tests and saves for all trainers.
void tell_log(Context& context, ClusterSession& session,
              const std::vector<ProcessOnNode>& processes) {
  for (const auto& [member, status] : processes) {
    Member& node = session.members()[member];
    if (status.name != "trainer-0" || !node.client) continue;
    const auto lines = LogReader(status.log).tail(*node.client, kLinesTold, kLogBytesLookedAt);
    if (!lines) return;  // none was written yet
    for (const LogLine& line : *lines) {
      context.console.note(fmt::format("{}/{} | {}", node.spec.name, status.name,
                                       escape_control(shown_line(line.text))));
    }
  }
}

}  // namespace

std::map<std::string, std::string> nodes_of(ClusterSession& session,
                                            const std::vector<ProcessOnNode>& processes) {
  std::map<std::string, std::string> nodes;
  for (const ProcessOnNode& process : processes)
    nodes[process.status.name] = session.members()[process.member].spec.name;
  return nodes;
}

void JobFeed::poll(const std::vector<ProcessOnNode>& processes) {
  if (processes.empty()) return;
  for (const ProcessOnNode& process : processes) {
    const auto& progress = process.status.progress;
    if (progress && progress->passes > 0) summary_.passes = progress->passes;
  }
  read_metrics(processes);
  const bool is_over = std::ranges::any_of(processes, [](const ProcessOnNode& process) {
    return process.status.name == "trainer-0" && !is_running(process.status);
  });
  if (is_over) tell_pass();
  show_tests();
  tell_restarts(processes);
  tell_snapshot_failures(processes);
  const Paces paces = paces_of(processes);
  tell_stalls(processes, paces);
  show_progress(processes, paces);
  has_looked_ = true;
}

// Trainer 0 tests for all trainers. Users' own programs report only through their metrics.
void JobFeed::read_metrics(const std::vector<ProcessOnNode>& processes) {
  std::mutex mutex;
  for (const ProcessOnNode& process : processes) {
    const remote::ProcessStatus& status = process.status;
    if (!is_pserver(status) && (status.name == "trainer-0" || !status.reports))
      readers_.try_emplace(status.name, metrics_path(status.log));
  }
  (void)session_.each([&](Member& member) -> Status {
    for (const ProcessOnNode& process : processes) {
      const auto reader = readers_.find(process.status.name);
      if (reader == readers_.end() || &session_.members()[process.member] != &member) continue;
      do {
        auto lines = reader->second.poll(*member.client);
        if (!lines) break;  // no file yet, or a lost node, which processes() reports
        const std::lock_guard lock(mutex);
        for (const LogLine& line : *lines) {
          if (const auto parsed = parse_metrics(line.text)) {
            take(process, *parsed);
          } else if (line.text.size() > kLogLineBytesMax) {
            take_long_line(process);
          }
        }
      } while (!reader->second.at_end());
    }
    return {};
  });
}

void JobFeed::take_long_line(const ProcessOnNode& process) {
  const std::string& name = process.status.name;
  if (!has_long_line_.insert(name).second) return;
  warnings_.push_back(fmt::format(
      "warning: {} on {} has written a line of metrics with more than {} KiB, which is left out; "
      "write shorter lines",
      name, session_.members()[process.member].spec.name, kLogLineBytesMax >> 10U));
}

void JobFeed::take(const ProcessOnNode& process, const MetricsLine& line) {
  auto progress = progress_of(line);
  // Lines from before the process's start belong to a run that may have had other passes.
  if (progress && is_of_this_run(line, process.status)) {
    remote::Progress& newest = from_metrics_[process.status.name];
    if (progress->passes == 0) progress->passes = newest.passes;
    if (has_no_time(line, process.status)) progress->unix_ms = process.status.asked_unix_ms;
    newest = *progress;
  }
  if (process.status.name != "trainer-0") return;
  if (progress && progress->passes > 0) summary_.passes = progress->passes;
  if (line.kind == "warning") return take_warning(process, line);
  if (line.kind == "pass") {
    tell_pass();
    summary_.last_pass = of_whole_job(line);
    summary_.is_pass_untold = is_of_this_run(line, process.status);
  }
  if (line.kind == "save") saved_pass_ = line.pass;
  if (line.kind == "test") {
    summary_.last_test = line;
    if (tests_to_skip_ > 0) {
      --tests_to_skip_;
    } else {
      tests_.push_back(describe(line, summary_.passes));
      ++summary_.tests_told;
    }
  }
  if (line.kind == "stop" && is_of_this_run(line, process.status)) {
    if (const std::string* const why = line.text("why")) {
      tests_.push_back(
          fmt::format("training ends with {}: {}", pass_words(line.pass), escape_control(*why)));
    }
  }
  // A process's first line may be far from the first batch; a resumed run has a new first batch.
  if (const auto first = line.number("first_cost"); first && !knows_first_batch_) {
    summary_.first_cost = first;
    knows_first_batch_ = true;
  }
  if (line.kind != "train" && line.kind != "pass") return;
  // A user's own program may write no cost at all.
  const auto cost = line.number("current_cost") ? line.number("current_cost") : line.cost;
  if (cost || line.cost_is_null || process.status.reports) watch_cost(cost.value_or(std::nan("")));
}

void JobFeed::tell_pass() {
  if (std::exchange(summary_.is_pass_untold, false) && !summary_.last_test)
    tests_.push_back(describe(*summary_.last_pass, summary_.passes));
}

void JobFeed::take_warning(const ProcessOnNode& process, const MetricsLine& line) {
  if (!is_of_this_run(line, process.status)) return;
  if (const std::string* const message = line.text("message"))
    warnings_.push_back("warning: " + escape_control(*message));
}

void JobFeed::show_tests() {
  for (const std::string& warning : std::exchange(warnings_, {})) context_.console.note(warning);
  const std::vector<std::string> tests = std::exchange(tests_, {});
  if (context_.console.json()) return;
  const std::size_t hidden = has_looked_ ? 0 : tests.size() - std::min(tests.size(), past_tests_);
  if (hidden > 0) context_.console.note(counted(hidden, "earlier result") + " not shown");
  for (std::size_t i = hidden; i < tests.size(); ++i) context_.console.result(tests[i]);
}

void JobFeed::watch_cost(double cost) {
  if (!summary_.first_cost && std::isfinite(cost)) summary_.first_cost = cost;
  if (!diverges(cost, summary_.first_cost)) return;
  if (!std::exchange(summary_.diverged_to, cost))
    context_.console.note("warning: " + divergence_text(cost));
}

void JobFeed::tell_restarts(const std::vector<ProcessOnNode>& processes) {
  for (const ProcessOnNode& process : processes) {
    const remote::ProcessStatus& status = process.status;
    std::uint32_t& shown = restarts_shown_[status.name];
    for (const remote::Restart& restart : status.restarts) {
      if (restart.incarnation <= shown) continue;
      shown = restart.incarnation;
      // If it only lost a peer, the peer's own restart is printed instead. The first poll prints no
      // earlier restarts.
      const bool is_news = restart.failures > 0 || restart.ordered;
      if (!is_news || !has_looked_) continue;
      context_.console.note(fmt::format("{} on {} {}", status.name,
                                        session_.members()[process.member].spec.name,
                                        describe(restart, status.restarts_allowed)));
    }
  }
}

void JobFeed::tell_stalls(const std::vector<ProcessOnNode>& processes, const Paces& paces) {
  std::set<std::pair<std::string, Pace>> hanging;
  for (const auto& [name, pace] : paces) {
    if (hangs(pace.pace)) hanging.emplace(name, pace.pace);
  }
  const bool has_new = !std::ranges::includes(hanging_, hanging);
  if (has_new) {
    for (const std::string& line : describe_stalls(paces, nodes_of(session_, processes)))
      context_.console.note(line);
  }
  for (const auto& [name, before] : hanging_) {
    const auto now = paces.find(name);
    if (now == paces.end() || hangs(now->second.pace)) continue;
    context_.console.note(name +
                          (before == Pace::kStalled ? " is no longer stalled" : " responds again"));
  }
  hanging_ = std::move(hanging);
}

void JobFeed::tell_snapshot_failures(const std::vector<ProcessOnNode>& processes) {
  for (const ProcessOnNode& process : processes) {
    const remote::ProcessStatus& status = process.status;
    if (!status.progress) continue;
    const std::string& node = session_.members()[process.member].spec.name;
    const std::string rollback = describe_rollback(status, node);
    const std::string rollback_before = std::exchange(rollbacks_[status.name], rollback);
    if (!rollback.empty() && rollback != rollback_before)
      context_.console.note("warning: " + rollback);
    // Printed once for each snapshot that is lost.
    const std::string failure = describe_save_failure(status, node);
    const std::string shown = std::exchange(save_failures_[status.name], failure);
    if (!failure.empty() && failure != shown) context_.console.note("warning: " + failure);
  }
}

void JobFeed::show_start(const std::vector<ProcessOnNode>& processes) {
  const auto trainers =
      static_cast<std::size_t>(std::ranges::count_if(processes, is_running_trainer));
  if (trainers == 0) return;
  const bool all_report =
      std::ranges::all_of(processes, [](const ProcessOnNode& p) { return p.status.reports; });
  const std::string text = all_report
                               ? fmt::format("starting: {} {} data", counted(trainers, "trainer"),
                                             trainers == 1 ? "loads" : "load")
                               : counted(trainers, "trainer") + " running, without metrics so far";
  if (text != start_told_) context_.console.note(text);
  start_told_ = text;
}

void JobFeed::show_progress(const std::vector<ProcessOnNode>& processes, const Paces& paces) {
  std::vector<remote::Progress> trainers;
  std::int64_t newest = 0;
  bool is_of_engine = false;
  for (const ProcessOnNode& process : processes) {
    if (!is_running_trainer(process)) continue;
    const remote::ProcessStatus& status = process.status;
    std::optional<remote::Progress> progress = status.progress;
    is_of_engine = is_of_engine || progress;
    const auto written = from_metrics_.find(status.name);
    if (!progress && written != from_metrics_.end()) {
      progress = written->second;
      const std::int64_t age = status.asked_unix_ms - progress->unix_ms;
      if (age > kRateAgeMaxMs) progress->examples_per_second = 0;
    }
    if (!progress) continue;
    const Pace pace = paces.at(status.name).pace;
    if (hangs(pace) || pace == Pace::kWaiting) progress->examples_per_second = 0;
    newest = std::max(newest, progress->unix_ms);
    trainers.push_back(*progress);
  }
  const auto progress = job_progress(trainers);
  if (!progress) {
    left_.interrupt();
    return show_start(processes);
  }
  const auto now = context_.clock.now().time_since_epoch();
  if (hanging_.empty() && (progress->pass_done || !is_of_engine)) {
    left_.add(std::chrono::duration_cast<std::chrono::milliseconds>(now).count(),
              progress->position());
  } else {
    left_.interrupt();
  }
  if (newest > std::exchange(reported_unix_ms_, newest) && progress->cost) {
    trail_.add(*progress->cost);
    watch_cost(*progress->cost);
  }
  if (progress->passes > 0 && hanging_.empty())
    tell_end(left_.left_ms(static_cast<double>(progress->passes)));
  context_.console.progress(context_.clock.now(), line_of(*progress, paces));
}

void JobFeed::tell_end(std::optional<std::int64_t> left_ms) {
  const auto nodes_left_ms = context_.nodes_left_ms();
  if (has_told_end_ || !nodes_left_ms || !left_ms || *left_ms <= *nodes_left_ms) return;
  has_told_end_ = true;
  context_.console.note(time_limit_text(*nodes_left_ms, left_ms));
}

// The most important part first: a narrow terminal drops the last ones.
std::string JobFeed::line_of(const JobProgress& progress, const Paces& paces) const {
  const ConsoleOptions& console = context_.console.options();
  std::vector<std::string> parts{"pass " + pass_text(progress.pass, progress.passes)};
  if (progress.pass_done) parts.push_back(share_text(*progress.pass_done));
  if (progress.examples_per_second > 0) parts.push_back(rate_text(progress.examples_per_second));
  std::string busy;
  for (const auto& [name, pace] : paces) {
    if (hangs(pace.pace)) busy = name + " " + describe(pace);
    if (busy.empty() && (pace.pace == Pace::kTesting || pace.pace == Pace::kSaving))
      busy = describe(pace);
  }
  parts.push_back(busy);
  if (std::ranges::any_of(save_failures_, [](const auto& one) { return !one.second.empty(); }))
    parts.push_back(saved_text(saved_pass_));
  if (const auto left = left_.left_ms(static_cast<double>(progress.passes));
      left && progress.passes > 0 && hanging_.empty()) {
    parts.push_back(left_text(*left));
  }
  if (progress.cost) {
    parts.push_back("cost " + cost_text(*progress.cost));
    if (console.live) parts.push_back(trail_.sparkline(console.utf8));
  }
  return fitted(std::move(parts), console.live ? console.live_columns : 0);
}

void tell_past(Context& context, ClusterSession& session, const std::string& job) {
  const std::vector<ProcessOnNode> processes = session.processes(job);
  const bool runs = std::ranges::any_of(
      processes, [](const ProcessOnNode& process) { return is_running(process.status); });
  if (!runs) return;
  tell_restarts(context, session, processes);
  tell_log(context, session, processes);
}

}  // namespace paddle::cli
