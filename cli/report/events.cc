#include "cli/report/events.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "cli/console/time_text.h"
#include "cli/report/record.h"

namespace paddle::cli {
namespace {

constexpr std::size_t kNotesMax = 200;  // the last ones of a log
constexpr std::size_t kTextBytesMax = 500;
constexpr std::int64_t kDayMs = 86'400'000;
constexpr std::string_view kJob = "job";  // role of an event of several processes
constexpr std::string_view kSupervisor = "paddlectl: ";
constexpr std::string_view kAgain = "; it is started again";
constexpr std::string_view kStart = "start ";  // with the number of the second or a later start
constexpr std::string_view kRestarted = "restarted";
constexpr std::string_view kByHand = "ended by paddlectl restart";
constexpr std::string_view kSilence = "no heartbeat of ";  // when it ends, there is another warning
constexpr std::string_view kLostPeer = "exited with code 4";  // because another process ended
constexpr std::int64_t kTogetherMs = 5'000;        // equal events of processes within this are one
constexpr std::int64_t kKilledTogetherMs = 1'500;  // the same for ends before a restart

// A line of the engine's log: "W1121 19:27:48.123456 trainer-0] text".
struct EngineLine {
  char level = 0;
  std::tm time{};  // local time of the node, without the year
  int ms = 0;
  std::string text;
};

std::optional<EngineLine> read_engine_line(const std::string& line) {
  EngineLine read;
  const std::size_t text = line.find("] ");
  const char* const end = ::strptime(line.c_str() + std::min<std::size_t>(1, line.size()),
                                     "%m%d %H:%M:%S.", &read.time);
  if (end == nullptr || text == std::string::npos) return std::nullopt;
  if (std::string_view("IWEF").find(line[0]) == std::string_view::npos) return std::nullopt;
  read.level = line[0];
  read.ms = std::atoi(std::string(end).substr(0, 3).c_str());
  read.text = line.substr(text + 2, kTextBytesMax);
  return read;
}

// The time of the line. It has no year, so the year is chosen that puts it nearest to `near_ms`.
std::int64_t unix_ms_of(const EngineLine& line, std::int64_t utc_offset_s, std::int64_t near_ms) {
  const auto near_s = static_cast<std::time_t>(near_ms / 1000);
  std::tm around{};
  ::gmtime_r(&near_s, &around);
  std::int64_t best = near_ms, least = 400 * kDayMs;
  for (const int year : {around.tm_year - 1, around.tm_year, around.tm_year + 1}) {
    std::tm time = line.time;
    time.tm_year = year;
    const std::int64_t at = (::timegm(&time) - utc_offset_s) * 1000 + line.ms;
    if (std::abs(at - near_ms) < least) {
      least = std::abs(at - near_ms);
      best = at;
    }
  }
  return best;
}

void add_metrics_events(const ProcessRecord& process, std::vector<JobEvent>& events) {
  std::int64_t when_known = process.begun_unix_ms;  // a user's own program may write no times
  for (const MetricsLine& line : process.metrics) {
    if (line.unix_ms > 0) when_known = line.unix_ms;
    if (when_known <= 0) continue;
    if (line.kind == "test") {
      events.push_back({when_known, process.role, describe(line), false});
    } else if (line.kind == "save") {
      const std::string* const path = line.text("path");
      const std::string name = path == nullptr ? "" : path->substr(path->rfind('/') + 1);
      events.push_back({when_known, process.role, "snapshot " + name, false});
    }
  }
  if (!process.lacks_metrics) return;
  events.push_back(
      {when_known, process.role, "wrote too many metrics: the later ones are left out", true});
}

std::string counted_roles(std::size_t trainers, std::size_t pservers) {
  const auto counted = [](std::size_t count, std::string_view noun) {
    return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
  };
  if (trainers == 0) return counted(pservers, "pserver");
  if (pservers == 0) return counted(trainers, "trainer");
  return counted(pservers, "pserver") + " and " + counted(trainers, "trainer");
}

// Adds each start of the job, if its commands are recorded; a process knows only its own last
// start. False if they are not.
bool add_starts(const JobRecord& record, std::vector<JobEvent>& events) {
  bool is_first = true;
  bool all_known = !record.commands.empty();
  for (const CommandRecord& command : record.commands)
    all_known = all_known && command.trainers > 0 && command.unix_ms > 0;
  if (!all_known) return false;
  for (const CommandRecord& command : record.commands) {
    const bool goes_on = !std::exchange(is_first, false) && command.is_resume;
    events.push_back(
        {command.unix_ms, std::string(kJob),
         counted_roles(command.trainers, command.pservers) + (goes_on ? " resumed" : " started"),
         false});
  }
  return true;
}

void add_starts_and_ends(const JobRecord& record, std::vector<JobEvent>& events) {
  const bool knows_starts = add_starts(record, events);
  for (const ProcessRecord& process : record.processes) {
    if (process.started_unix_ms == 0) continue;  // a damaged record
    if (!knows_starts) events.push_back({process.begun_unix_ms, process.role, "started", false});
    if (process.ended_unix_ms > 0) {
      events.push_back({process.ended_unix_ms, process.role, process.state, process.failed});
    }
  }
}

// Merges equal events of several processes at about the same time into one, at the time of the
// first.
std::vector<JobEvent> joined(const std::vector<JobEvent>& events) {
  std::vector<JobEvent> kept;
  std::vector<std::set<std::string>> roles;  // the roles of each kept event
  for (const JobEvent& event : events) {
    const bool is_restart = event.is_bad && !event.is_said && event.text.ends_with(kRestarted);
    const std::int64_t near = is_restart ? kKilledTogetherMs : kTogetherMs;
    std::size_t at = kept.size();
    while (at > 0 && event.unix_ms - kept[at - 1].unix_ms <= near &&
           (kept[at - 1].text != event.text || roles[at - 1].contains(event.role))) {
      --at;
    }
    if (at > 0 && event.unix_ms - kept[at - 1].unix_ms <= near) {
      roles[at - 1].insert(event.role);
    } else {
      kept.push_back(event);
      roles.push_back({event.role});
    }
  }
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (roles[i].size() < 2) continue;
    const auto trainers = static_cast<std::size_t>(std::ranges::count_if(
        roles[i], [](const std::string& role) { return role.starts_with("trainer-"); }));
    kept[i].role = kJob;
    kept[i].text = counted_roles(trainers, roles[i].size() - trainers) +
                   (kept[i].is_said ? ": " : " ") + kept[i].text;
  }
  return kept;
}

// Puts the end of a process before the ends of others that lost it as a peer. A restarted process's
// end is recorded with the time of a later log line, so the others' times are more exact. REQUIRES:
// `events` are sorted by time.
void put_causes_first(std::vector<JobEvent>& events) {
  const auto is_effect = [](const JobEvent& event) { return event.text.starts_with(kLostPeer); };
  const auto is_cause = [&](const JobEvent& event) {
    return event.is_bad && event.text.ends_with(kRestarted) && !is_effect(event);
  };
  const JobEvent* effect = nullptr;  // the first effect nearby
  for (JobEvent& event : events) {
    if (effect != nullptr && event.unix_ms - effect->unix_ms > kTogetherMs) effect = nullptr;
    if (effect == nullptr && is_effect(event)) effect = &event;
    if (effect != nullptr && is_cause(event)) event.unix_ms = effect->unix_ms;
  }
  std::ranges::stable_sort(events, {}, [&](const JobEvent& event) {
    return std::pair(event.unix_ms, is_effect(event));
  });
}

struct Pause {
  const ProcessRecord* process = nullptr;
  std::int64_t begin = 0, end = 0;  // unix ms
};

// Stalls without a test or a snapshot of the leader in between.
std::vector<Pause> pauses_of(const ProcessRecord& process, const std::vector<std::int64_t>& work) {
  std::vector<Pause> all;
  for (const auto& [begin, end] : totals_of(process)->stalls()) {
    const auto next = std::ranges::upper_bound(work, begin);
    if (next == work.end() || *next > end) all.push_back({&process, begin, end});
  }
  return all;
}

// Adds stalls; trainers that stall at the same time are one event.
void add_stalls(const JobRecord& record, std::vector<JobEvent>& events) {
  std::vector<std::int64_t> work;  // tests and snapshots
  for (const ProcessRecord& process : record.processes) {
    for (const MetricsLine& line : process.metrics) {
      if (line.kind == "test" || line.kind == "save") work.push_back(line.unix_ms);
    }
  }
  std::ranges::sort(work);
  std::vector<Pause> stalls;
  for (const ProcessRecord& process : record.processes) {
    if (!process.is_trainer()) continue;
    const auto found = pauses_of(process, work);
    stalls.insert(stalls.end(), found.begin(), found.end());
  }
  std::ranges::sort(stalls, {}, &Pause::begin);
  for (std::size_t i = 0; i < stalls.size();) {
    Pause together = stalls[i];
    std::set<std::string> roles;
    for (; i < stalls.size() && stalls[i].begin < together.end; ++i) {
      roles.insert(stalls[i].process->role);
      together.end = std::max(together.end, stalls[i].end);
    }
    const std::string long_one = span_text(together.end - together.begin);
    events.push_back({together.begin, roles.size() == 1 ? *roles.begin() : std::string(kJob),
                      roles.size() == 1
                          ? "stalled for " + long_one
                          : fmt::format("{} trainers stalled for {}", roles.size(), long_one),
                      true});
  }
}

}  // namespace

LogEvents::LogEvents(const ProcessRecord& process)
    : role_(process.role),
      utc_offset_s_(process.utc_offset_s),
      end_ms_(process.ended_unix_ms > 0 ? process.ended_unix_ms : process.started_unix_ms) {}

void LogEvents::take(const std::string& line, std::int64_t unix_ms) {
  if (line.starts_with(kSupervisor))
    return take_note(line.substr(kSupervisor.size(), kTextBytesMax), unix_ms);
  const auto read = read_engine_line(line);
  if (!read) return;
  std::int64_t when = unix_ms > 0 ? unix_ms : end_ms_;
  if (utc_offset_s_) when = unix_ms_of(*read, *utc_offset_s_, when);
  for (; untimed_ > 0; --untimed_) found_[found_.size() - untimed_].unix_ms = when;
  const bool is_bad = read->level != 'W' || read->text.starts_with(kSilence);
  if (read->level != 'I') add(when, read->text, is_bad, true);
}

void LogEvents::take_note(std::string note, std::int64_t unix_ms) {
  const bool is_start = note.starts_with(kStart);
  const bool is_told = std::exchange(starts_again_, note.ends_with(kAgain)) && is_start;
  if (is_told) return;
  if (starts_again_)
    note.replace(note.size() - kAgain.size(), kAgain.size(), "; " + std::string(kRestarted));
  const bool is_bad = !is_start && !note.starts_with(kByHand);
  add(unix_ms > 0 ? unix_ms : end_ms_, is_start ? std::string(kRestarted) : std::move(note),
      is_bad);
  if (unix_ms == 0) ++untimed_;
}

void LogEvents::add(std::int64_t when, std::string text, bool is_bad, bool is_said) {
  if (found_.size() >= kNotesMax) found_.erase(found_.begin());
  found_.push_back({when, role_, std::move(text), is_bad, is_said});
}

std::vector<JobEvent> log_events(const std::string& folder, const ProcessRecord& process) {
  LogEvents notes(process);
  each_line(folder, process.log, [&](const std::string& line) { notes.take(line); });
  return notes.found();
}

std::vector<JobEvent> events_of(const JobRecord& record, std::vector<JobEvent> of_logs) {
  std::vector<JobEvent> events;
  add_starts_and_ends(record, events);
  for (const ProcessRecord& process : record.processes) add_metrics_events(process, events);
  events.insert(events.end(), std::make_move_iterator(of_logs.begin()),
                std::make_move_iterator(of_logs.end()));
  add_stalls(record, events);
  std::ranges::stable_sort(events, {}, &JobEvent::unix_ms);
  put_causes_first(events);
  return joined(events);
}

}  // namespace paddle::cli
