#include "cli/watch/log_follow.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "cli/console/time_text.h"

namespace paddle::cli {
namespace {

// Chunks of a log per turn; if a process writes faster, the rest is read in the next turn.
constexpr int kChunksAtOnce = 16;
// Limit on the lines of a log that wait for lines of slower logs.
constexpr std::size_t kWaitingLinesMax = 100'000;
// Time between writing a line and the supervisor's copying it into the log.
constexpr std::int64_t kSettleMs = 100;
// How often a line shows the new state of a progress bar.
constexpr auto kStateEvery = std::chrono::seconds(5);

std::int64_t milliseconds(TimePoint when) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(when.time_since_epoch()).count();
}

std::int64_t middle_ms(const NodeLook& look) {
  return (milliseconds(look.asked) + milliseconds(look.answered)) / 2;
}

}  // namespace

std::size_t LogMerge::add_source(std::int64_t first_unix_ms) {
  sources_.push_back({{}, first_unix_ms, false});
  ++silent_;
  return sources_.size() - 1;
}

void LogMerge::add(std::size_t source, std::vector<LogLine> lines) {
  Source& into = sources_[source];
  if (lines.empty()) return;
  silent_ -= is_silent(into) ? 1 : 0;
  const bool is_first = into.lines.empty();
  for (LogLine& line : lines) {
    line.unix_ms = std::max(line.unix_ms, into.last_unix_ms);
    into.last_unix_ms = line.unix_ms;
    into.lines.push_back(std::move(line));
  }
  if (is_first) fronts_.emplace(into.lines.front().unix_ms, source);
}

void LogMerge::close(std::size_t source) {
  silent_ -= is_silent(sources_[source]) ? 1 : 0;
  sources_[source].closed = true;
}

LogLine LogMerge::take_front(std::size_t source) {
  Source& from = sources_[source];
  fronts_.erase({from.lines.front().unix_ms, source});
  LogLine line = std::move(from.lines.front());
  from.lines.pop_front();
  silent_ += is_silent(from) ? 1 : 0;
  if (!from.lines.empty()) fronts_.emplace(from.lines.front().unix_ms, source);
  return line;
}

std::optional<LogMerge::Line> LogMerge::next(std::int64_t complete_until) {
  if (fronts_.empty()) return std::nullopt;
  const auto [unix_ms, source] = *fronts_.begin();
  if (silent_ > 0 && unix_ms > complete_until) return std::nullopt;
  return Line{source, take_front(source)};
}

void LogMerge::keep_last(std::size_t lines) {
  std::size_t waiting = 0;
  for (const Source& source : sources_) waiting += source.lines.size();
  for (; waiting > lines; --waiting) (void)next(std::numeric_limits<std::int64_t>::max());
}

void LogMerge::keep_last(std::size_t lines, std::size_t source) {
  while (waiting(source) > lines) take_front(source);
}

std::vector<std::int64_t> clock_skews(const std::vector<std::optional<NodeLook>>& nodes) {
  std::vector<std::int64_t> skews(nodes.size());
  const NodeLook* first = nullptr;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!nodes[i]) continue;
    const NodeLook& look = *nodes[i];
    if (first == nullptr) first = &look;
    const std::int64_t ahead =
        (look.usage.unix_ms - middle_ms(look)) - (first->usage.unix_ms - middle_ms(*first));
    const std::int64_t doubt = (milliseconds(look.answered) - milliseconds(look.asked) +
                                milliseconds(first->answered) - milliseconds(first->asked)) /
                                   2 +
                               1;
    if (ahead > doubt || ahead < -doubt) skews[i] = ahead;
  }
  return skews;
}

void LogFollow::find_logs(const ClusterLook& look) {
  any_running_ = false;
  const std::vector<std::int64_t> skews = clock_skews(look.nodes);
  for (const ProcessOnNode& process : look.processes) {
    const std::string& node = session_.members()[process.member].spec.name;
    if (!options_.wanted(process, node)) continue;
    if (options_.previous && process.status.incarnation < 2) continue;
    const bool runs = process.status.state == remote::ProcessState::kRunning;
    any_running_ = any_running_ || runs;
    const auto [known, is_new] = by_name_.try_emplace(process.status.name, logs_.size());
    if (is_new) {
      const std::int64_t skew = skews[process.member];
      logs_.push_back(
          {.source = {process.member, node, process.status.name},
           .reader = LogReader(options_.path ? options_.path(process.status) : process.status.log),
           .skew_ms = skew,
           .previous_incarnation = options_.previous ? process.status.incarnation - 1 : 0});
      merge_.add_source(process.status.started_unix_ms - skew);
      label_width_ =
          std::max(label_width_, display_width(node) + 1 + display_width(process.status.name));
    }
    Log& log = logs_[known->second];
    log.process_ended = !runs;
    log.node_now_ms = look.nodes[process.member] ? look.nodes[process.member]->usage.unix_ms : 0;
  }
}

// Keeps the lines of the previous start, found by the marks that the supervisor writes at each
// start.
void LogFollow::keep_previous_incarnation(Log& log, std::vector<LogLine>& lines) {
  if (log.previous_incarnation == 0) return;
  std::erase_if(lines, [&](const LogLine& line) {
    constexpr std::string_view kMark = "paddlectl: start ";
    const std::string_view text = line.text;
    if (text.starts_with(kMark)) {
      const std::string_view number = text.substr(kMark.size());
      std::from_chars(number.data(), number.data() + number.size(), log.incarnation);
    }
    return log.incarnation != log.previous_incarnation ||
           (line.unix_ms != 0 && line.unix_ms < log.since_ms);
  });
}

void LogFollow::set_time(const Log& log, LogLine& line) const {
  if (options_.time_of) line.unix_ms = options_.time_of(line.text);
  if (line.unix_ms != 0) line.unix_ms -= log.skew_ms;
}

// The first lines. With --previous, reads from the beginning, to find the marks of the starts.
Result<std::vector<LogLine>> LogFollow::begin(remote::AgentClient& client, Log& log) const {
  if (!options_.since.empty()) {
    PADDLE_TRY(log.since_ms, parse_since(options_.since, log.node_now_ms));
  }
  if (options_.previous) return log.reader.poll(client);
  if (!options_.since.empty()) return log.reader.since(client, log.since_ms);
  if (options_.tail < 0) return log.reader.poll(client);
  return log.reader.tail(client, static_cast<std::size_t>(options_.tail));
}

// Whether all of the log must be read to know its last lines, because only a part of it counts.
bool LogFollow::reads_for_tail() const {
  return options_.tail >= 0 && !is_tail_cut_ && (options_.previous || !options_.since.empty());
}

void LogFollow::add_lines(std::size_t index, std::vector<LogLine> lines) {
  Log& log = logs_[index];
  // A line that was shown before it was complete is not shown again.
  const bool is_shown =
      !lines.empty() && !log.shown_state.empty() && lines.front().text == log.shown_state;
  if (is_shown) lines.erase(lines.begin());
  if (is_shown || !lines.empty()) log.shown_state.clear();
  keep_previous_incarnation(log, lines);
  for (LogLine& line : lines) set_time(log, line);
  merge_.add(index, std::move(lines));
  if (reads_for_tail()) merge_.keep_last(static_cast<std::size_t>(options_.tail), index);
}

// Adds a line without an end. If no more output is expected: all of it. Otherwise, from time to
// time, the newest state of a progress bar.
void LogFollow::add_state(std::size_t index, bool follow) {
  Log& log = logs_[index];
  const LogLine* const state = log.reader.unfinished();
  if (state == nullptr) return;
  if (follow) {
    if (!log.reader.is_overwritten() || state->text == log.shown_state) return;
    const TimePoint now = context_.clock.now();
    if (log.state_shown_at != TimePoint() && now < log.state_shown_at + kStateEvery) return;
    log.state_shown_at = now;
  }
  log.shown_state.clear();
  add_lines(index, {*state});
  log.shown_state = state->text;
}

Status LogFollow::read_log(remote::AgentClient& client, std::size_t index, bool follow) {
  Log& log = logs_[index];
  log.caught_up = false;
  // Without `follow`, a log whose lines are still waiting is read later, which bounds memory.
  const std::size_t waiting_max = follow ? kWaitingLinesMax : 1;
  for (int i = 0; reads_for_tail() || (i < kChunksAtOnce && merge_.waiting(index) < waiting_max);
       ++i) {
    if (context_.interrupted() || context_.console.closed()) return {};
    auto lines = log.begun ? log.reader.poll(client) : begin(client, log);
    log.begun = log.begun || bool(lines);
    if (!lines && lines.error().code == Errc::kUnreachable) return std::move(lines).error();
    if (!lines && lines.error().code == Errc::kUsage) return std::move(lines).error();
    log.caught_up = !lines || log.reader.at_end();  // a missing log has no line yet
    if (lines) add_lines(index, *std::move(lines));
    if (log.caught_up) break;
  }
  if (!log.caught_up) return {};
  if (!log.process_ended) add_state(index, follow);
  if (follow && !log.process_ended) return {};
  if (log.process_ended) {
    if (auto rest = log.reader.rest()) add_lines(index, {*std::move(rest)});
  }
  merge_.close(index);
  return {};
}

Status LogFollow::read(bool follow) {
  const ClusterLook look = session_.look(context_.clock, job_);
  find_logs(look);
  Status read = session_.each([&](Member& member) -> Status {
    for (std::size_t i = 0; i < logs_.size(); ++i) {
      const bool is_here = &session_.members()[logs_[i].source.member] == &member;
      if (is_here && !merge_.is_closed(i)) PADDLE_TRY_STATUS(read_log(*member.client, i, follow));
    }
    return {};
  });
  // Each log has given its own last lines; keeps the last ones of all logs together.
  if (options_.tail >= 0 && !std::exchange(is_tail_cut_, true))
    merge_.keep_last(static_cast<std::size_t>(options_.tail));
  // By the first node's clock. A log that is not caught up may still have earlier lines.
  complete_until_ = kNothingYet;
  const bool all_caught_up = std::ranges::all_of(logs_, &Log::caught_up);
  const auto first =
      std::ranges::find_if(look.nodes, [](const auto& node) { return node.has_value(); });
  if (follow && all_caught_up && first != look.nodes.end()) {
    complete_until_ = (*first)->usage.unix_ms - kSettleMs;
  }
  return read;
}

bool LogFollow::all_read() const {
  for (std::size_t i = 0; i < logs_.size(); ++i) {
    if (!merge_.is_closed(i) || merge_.waiting(i) > 0) return false;
  }
  return true;
}

}  // namespace paddle::cli
