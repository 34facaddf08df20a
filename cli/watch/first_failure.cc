#include "cli/watch/first_failure.h"

#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/watch/log_reader.h"
#include "cli/watch/process_state.h"

namespace paddle::cli {
namespace {

// An order to stop may be recorded this much later than the exits that it caused. This is less than
// the pause after which the rest of a failed job is stopped, so that order is never taken for the
// cause.
constexpr std::int64_t kStopLagMs = 400;

// Whether an order ended the process: a stop that its node recorded, or a plain kill.
bool was_stopped(const remote::ProcessStatus& status) {
  return status.stopped ||
         (status.state == remote::ProcessState::kKilled && status.signal == SIGTERM) ||
         (status.state == remote::ProcessState::kExited &&
          status.exit_code == static_cast<int>(Errc::kInterrupted));
}

// Whether the process ended because a trainer reported its own failure. A failing trainer sends the
// reason to pservers and trainers, which then end as well, perhaps earlier:
// "trainer 0: write w: No space left on device", "pserver dense port 0: trainer 0: write w: ...".
bool was_told(const remote::ProcessStatus& status) {
  if (!status.failure || status.state != remote::ProcessState::kExited) return false;
  constexpr std::string_view kTrainer = "trainer ";
  const std::string_view text = status.failure->message;
  for (std::size_t at = 0; (at = text.find(kTrainer, at)) != text.npos;) {
    const bool begins = at == 0 || text.substr(0, at).ends_with(": ");
    at += kTrainer.size();
    const std::size_t end = std::min(text.find_first_not_of("0123456789", at), text.size());
    const std::string_view number = text.substr(at, end - at);
    if (begins && !number.empty() && text.substr(end).starts_with(": ") &&
        status.name != fmt::format("trainer-{}", number)) {
      return true;
    }
  }
  return false;
}

// Sorts causes before consequences. A process's own failure comes before an order to stop and
// before a lost peer, whatever their times are, because the clocks of nodes differ; then the
// earlier end comes first.
std::tuple<bool, bool, std::int64_t> order_of_blame(const remote::ProcessStatus& status) {
  const bool lost_peer = status.state == remote::ProcessState::kExited &&
                         status.exit_code == static_cast<int>(Errc::kUnreachable);
  const bool stopped = was_stopped(status);
  // A record without an end time counts as the latest.
  const std::int64_t ended =
      status.ended_unix_ms > 0 ? status.ended_unix_ms : std::numeric_limits<std::int64_t>::max();
  return {stopped || lost_peer, was_told(status), stopped ? ended - kStopLagMs : ended};
}

// Whether a line of the engine's log has the totals of a pass or of a table, which say nothing
// about a failure: "I0317 17:26:12.388079 trainer-0] Pass=0 table 'words': rows=9 ...".
bool is_totals(std::string_view line) {
  constexpr std::string_view kEndOfPrefix = "] ";
  constexpr std::string_view kPass = "Pass=";
  const std::size_t at = line.find(kEndOfPrefix);
  if (!line.starts_with('I') || at == line.npos) return false;
  line.remove_prefix(at + kEndOfPrefix.size());
  if (!line.starts_with(kPass)) return false;
  line.remove_prefix(kPass.size());
  line.remove_prefix(std::min(line.find_first_not_of("0123456789"), line.size()));
  return line.starts_with(" table '") || line.starts_with(" over all trainers: ");
}

std::vector<std::string> read_lines(remote::AgentClient& client, const std::string& log) {
  LogReader reader(log);
  auto lines = reader.tail(client, SIZE_MAX);
  if (!lines) return {};
  if (auto rest = reader.rest()) lines->push_back(*std::move(rest));
  std::vector<std::string> texts;
  for (LogLine& line : *lines) texts.push_back(std::move(line.text));
  return texts;
}

constexpr const char* kPserverNeedsMemory =
    "spread its tables over more --pservers, limit them with bytes_max, or give its node or its "
    "memory group (cgroup) more";
constexpr const char* kTrainerNeedsMemory =
    "use a smaller batch_size or trainer_count, fewer trainers on a node, or give its node or its "
    "memory group (cgroup) more";

}  // namespace

const ProcessOnNode* first_failure(const std::vector<ProcessOnNode>& processes) {
  const bool trainers_done = std::ranges::all_of(processes, [](const ProcessOnNode& p) {
    return is_pserver(p.status) || ended_well(p.status) || is_resumable(p.status);
  });
  if (trainers_done) return nullptr;
  bool trainers_run = false;
  const ProcessOnNode* first = nullptr;
  for (const ProcessOnNode& process : processes) {
    trainers_run = trainers_run || (is_running(process.status) && !is_pserver(process.status));
    if (is_running(process.status) || ended_well(process.status) || is_resumable(process.status))
      continue;
    if (first == nullptr || order_of_blame(process.status) < order_of_blame(first->status))
      first = &process;
  }
  // Other trainers that were asked to stop may still be saving.
  const bool was_asked = first != nullptr && first->status.stopped;
  return was_asked && trainers_run ? nullptr : first;
}

bool is_consequence(const ProcessOnNode* failed) {
  return failed != nullptr && std::get<0>(order_of_blame(failed->status));
}

bool is_stopped_job(const std::vector<ProcessOnNode>& processes) {
  const ProcessOnNode* const first = first_failure(processes);
  if (first == nullptr) return false;
  return first->status.stopped ||
         (is_consequence(first) &&
          std::ranges::any_of(processes, [](const ProcessOnNode& p) { return p.status.stopped; }));
}

std::vector<std::string> lines_about(const remote::ProcessStatus& failed,
                                     std::vector<std::string> lines) {
  const bool is_own = is_own_program(failed);
  std::erase_if(lines, [&](const std::string& line) {
    const bool is_cause = failed.failure && (line == "paddle: " + failed.failure->message ||
                                             line == "hint: " + failed.failure->hint);
    return is_cause || (!is_own && is_totals(line));
  });
  const bool is_killed = failed.state == remote::ProcessState::kKilled;
  const std::size_t shown = std::min(lines.size(), is_killed ? kLinesOfKilled : kLastLinesShown);
  lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(shown));
  return lines;
}

Error failure_error(const remote::ProcessStatus& failed, const std::string& node) {
  Error error{Errc::kFailed, fmt::format("{} on {} {}", failed.name, node, describe_state(failed)),
              fmt::format("the whole log: paddlectl logs --node {} --job {}", node, failed.job)};
  const bool is_own = is_own_program(failed);
  if (failed.state == remote::ProcessState::kExited) {
    for (const Errc code : {Errc::kUsage, Errc::kVersion, Errc::kUnreachable, Errc::kAuth,
                            Errc::kData, Errc::kResource, Errc::kResumable}) {
      if (is_own && code != Errc::kResumable) continue;
      if (failed.exit_code == static_cast<int>(code)) error.code = code;
    }
  }
  if (const auto& cause = failed.failure) {
    error.message += ": " + cause->message;
    if (!cause->hint.empty()) error.hint = cause->hint + "; " + error.hint;
  }
  if (failed.out_of_memory_bytes > 0 && !failed.stopped) {
    error.code = Errc::kResource;
    error.hint = std::string(is_pserver(failed) ? kPserverNeedsMemory : kTrainerNeedsMemory) +
                 "; " + error.hint;
  }
  if (was_stopped(failed)) error.hint = "it was asked to end, by paddlectl stop or by kill";
  return error;
}

Error failure_error(ClusterSession& session, const ProcessOnNode& failed) {
  const Member& member = session.members()[failed.member];
  Error error = failure_error(failed.status, member.spec.name);
  if (!member.client) return error;
  const std::vector<std::string> lines =
      lines_about(failed.status, read_lines(*member.client, failed.status.log));
  if (!lines.empty()) error.message += "; last lines:";
  for (const std::string& line : lines) {
    error.message += fmt::format("\n  {}/{} | {}", member.spec.name, failed.status.name, line);
  }
  return error;
}

}  // namespace paddle::cli
