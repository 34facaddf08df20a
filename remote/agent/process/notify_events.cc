#include "remote/agent/process/notify_events.h"

#include <string.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/result.h"
#include "base/text_file.h"

namespace paddle::agent {
namespace {

constexpr auto kEventNames =
    std::to_array<std::string_view>({"done", "failed", "stalled", "restarted", "best", "disk_low"});
constexpr Duration kNoticePause = std::chrono::minutes(1);  // between two notices of some events
// Before the first batch of a pass a trainer may read and shuffle for long.
constexpr Duration kFirstBatchMax = std::chrono::minutes(10);
constexpr int kBatchesOfSilence = 3;  // a slow batch is no stall
constexpr std::uint64_t kSlowBatchMaxMs = 3'600'000;
constexpr std::size_t kTailBytes = 32U << 10U;
constexpr std::size_t kTailLinesMax = 20;
constexpr std::size_t kLineBytesMax = 1000;
constexpr std::size_t kLinesBytesMax = 32U << 10U;  // of JSON, for all lines
// A byte is at most 6 in JSON.
constexpr std::size_t kNoticeTextBytesMax = 2000;
constexpr std::size_t kNoticeNameBytesMax = 200;
constexpr std::uint64_t kDiskBytesMin = 2'000'000'000;
constexpr std::uint64_t kDiskShareMin = 20;  // one part of so many
constexpr std::string_view kReplacementMark = "\xef\xbf\xbd";

// Words of the engine's errors after the other end has closed a connection, or a pserver has lost a
// trainer. The supervisor of the process at that end, or of the pserver, then reports the failure.
constexpr auto kClosedWords = std::to_array<std::string_view>(
    {"closed by peer", "closed the connection", "Connection reset", "Connection refused",
     "Broken pipe", "is broken", "was restarted", "no program listens", " lost at step "});

// The peer has ended, and a process of another job has its port.
constexpr std::string_view kPortTaken = "it serves another job";

// Whether `text` has `part`, not followed by a digit: "trainer-1" is not in "trainer-12".
bool has_name_of(std::string_view text, std::string_view part) {
  for (std::size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) {
    const std::string_view rest = text.substr(at + part.size());
    if (rest.empty() || rest.front() < '0' || rest.front() > '9') return true;
  }
  return false;
}

// Whether the failure is that of another trainer, which sends it to pservers and trainers: "trainer
// 0: write w: No space left on device", "pserver dense port 0: trainer 0: write w: ...".
bool is_of_another(std::string_view message, std::string_view name) {
  constexpr std::string_view kTrainer = "trainer ";
  for (std::size_t at = 0; (at = message.find(kTrainer, at)) != message.npos;) {
    const bool begins = at == 0 || message.substr(0, at).ends_with(": ");
    at += kTrainer.size();
    const std::size_t end = std::min(message.find_first_not_of("0123456789", at), message.size());
    const std::string_view number = message.substr(at, end - at);
    if (begins && !number.empty() && message.substr(end).starts_with(": ") &&
        name != fmt::format("trainer-{}", number))
      return true;
  }
  return false;
}

// Whether the stop of the rest of a failed job may have caused this end. If not, the process may be
// the one that failed: its supervisor was late.
bool is_end_of_rest(const wire::agent::ProcessSpec& spec, const RunEnd& end) {
  if (!end.is_stopped_as_rest || end.has_ended_before_stop) return false;
  if (!end.hang.empty() || end.out_of_memory_bytes > 0) return false;
  if (WIFSIGNALED(end.wait_status)) {
    const int signal = WTERMSIG(end.wait_status);
    return signal == SIGTERM || signal == SIGKILL;
  }
  const int code = WEXITSTATUS(end.wait_status);
  return spec.program().empty() || code == 0 || code == static_cast<int>(Errc::kResumable) ||
         code == static_cast<int>(Errc::kInterrupted);
}

std::string whole_seconds(Duration time) {
  return fmt::format("{} s", std::chrono::duration_cast<std::chrono::seconds>(time).count());
}

// "trainer-1", "pserver-0 and pserver-3".
std::string waits_for(const wire::Progress& progress) {
  std::vector<std::string> peers;
  for (const std::uint32_t trainer : progress.awaited_trainers())
    peers.push_back(fmt::format("trainer-{}", trainer));
  for (const wire::Silent& silent : progress.silent())
    peers.push_back(fmt::format("pserver-{}", silent.index()));
  constexpr std::size_t kNamed = 3;
  if (peers.size() > kNamed) {
    const std::size_t more = peers.size() - kNamed;
    peers.resize(kNamed);
    return fmt::format("{} and {} more", fmt::join(peers, ", "), more);
  }
  return fmt::format("{}", fmt::join(peers, " and "));
}

// Length of the UTF-8 sequence at the front of `text`, or 0.
std::size_t sequence_at(std::string_view text) {
  for (std::size_t length = 1; length <= std::min<std::size_t>(4, text.size()); ++length) {
    if (is_utf8(text.substr(0, length))) return length;
  }
  return 0;
}

}  // namespace

std::string_view name_of(NotifyEvent event) {
  return kEventNames[static_cast<std::size_t>(event)];
}

// Ends.

EndKind kind_of(const wire::agent::ProcessSpec& spec, const RunEnd& end) {
  if (end.is_ordered || is_end_of_rest(spec, end)) return EndKind::kOrdered;
  if (WIFSIGNALED(end.wait_status)) return EndKind::kFailure;
  const int code = WEXITSTATUS(end.wait_status);
  if (code == 0) return EndKind::kDone;
  if (code == static_cast<int>(Errc::kResumable)) return EndKind::kSaved;
  const bool is_own_program = spec.program().empty();
  if (is_own_program) return EndKind::kFailure;
  const std::string message = end.failure ? end.failure->message() : "";
  if (is_of_another(message, spec.name())) return EndKind::kConsequence;
  if (message.find(kPortTaken) != message.npos) return EndKind::kConsequence;
  if (code != static_cast<int>(Errc::kUnreachable)) return EndKind::kFailure;
  const bool is_silent = std::ranges::any_of(
      end.silent_peers, [&](const std::string& peer) { return has_name_of(message, peer); });
  if (is_silent) return EndKind::kSilentPeer;
  const bool is_closed = std::ranges::any_of(
      kClosedWords, [&](std::string_view words) { return message.find(words) != message.npos; });
  return is_closed ? EndKind::kConsequence : EndKind::kSilentPeer;
}

std::string cause_of(const RunEnd& end) {
  if (end.out_of_memory_bytes > 0) {
    return fmt::format("killed by the kernel: out of memory (it had {} MB)",
                       end.out_of_memory_bytes / 1'000'000);
  }
  if (!end.hang.empty()) return fmt::format("hung ({}) and was killed", end.hang);
  std::string cause;
  if (WIFSIGNALED(end.wait_status)) {
    const int signal = WTERMSIG(end.wait_status);
    const char* const name = ::sigdescr_np(signal);
    cause = fmt::format("killed by signal {} ({})", signal, name != nullptr ? name : "?");
  } else {
    cause = fmt::format("exited with code {}", WEXITSTATUS(end.wait_status));
  }
  if (end.failure && !end.failure->message().empty()) cause += ": " + end.failure->message();
  if (end.is_shut_down) cause += "; its supervisor received SIGTERM: the node may be shutting down";
  return cause;
}

std::optional<NotifyEvent> event_of_end(const wire::agent::ProcessSpec& spec, const RunEnd& end) {
  const wire::agent::NotifyCommand& notify = spec.notify();
  switch (kind_of(spec, end)) {
    case EndKind::kDone:
    case EndKind::kSaved:
      if (notify.speaks_for_job()) return NotifyEvent::kDone;
      break;
    case EndKind::kFailure:
      return NotifyEvent::kFailed;
    case EndKind::kSilentPeer: {
      const std::string message = end.failure ? end.failure->message() : "";
      const bool is_witness = std::ranges::any_of(
          notify.witness_of(), [&](const std::string& peer) { return has_name_of(message, peer); });
      if (notify.speaks_for_lost() || is_witness) return NotifyEvent::kFailed;
      break;
    }
    case EndKind::kConsequence:
    case EndKind::kOrdered:
      break;
  }
  return {};
}

// Stalls.

void StallWatch::restart(TimePoint now) {
  *this = StallWatch(limit_);
  noticed_at_ = progressed_at_ = waits_since_ = now;
}

void StallWatch::on_notice(TimePoint now, const wire::Notice& notice) {
  noticed_at_ = now;
  const bool waits =
      notice.has_pulse() && !notice.pulse().is_stepping() && steps_ == notice.pulse().steps();
  if (!waits) waits_since_ = now;
  steps_ = notice.pulse().steps();
  if (!notice.has_progress()) return;
  const wire::Progress& progress = notice.progress();
  const bool has_moved = !last_ || progress.pass() != last_->pass() ||
                         progress.batch() != last_->batch() ||
                         progress.activity() != last_->activity();
  if (has_moved) {
    progressed_at_ = now;
    is_reported_ = false;
  }
  last_ = progress;
}

void StallWatch::discount(TimePoint now) {
  noticed_at_ = progressed_at_ = waits_since_ = now;
}

std::optional<std::string> StallWatch::look(TimePoint now) {
  if (limit_ == Duration::zero() || is_reported_) return {};
  std::string why;
  if (const Duration silent = now - noticed_at_; silent >= limit_) {
    why = fmt::format("no response for {}", whole_seconds(silent));
  } else if (last_ && last_->activity() == wire::ACTIVITY_TRAINING) {
    const Duration batches =
        std::chrono::milliseconds(kBatchesOfSilence * std::min(last_->batch_ms(), kSlowBatchMaxMs));
    const Duration limit = std::max(limit_, batches);
    const Duration own_limit = last_->batch() == 0 ? std::max(limit, kFirstBatchMax) : limit;
    if (now - waits_since_ < limit && now - progressed_at_ < own_limit) return {};
    why = fmt::format("no progress for {}", whole_seconds(now - progressed_at_));
    if (const std::string peers = waits_for(*last_); !peers.empty())
      why += "; it waits for " + peers;
  } else {
    return {};
  }
  is_reported_ = true;
  return why;
}

// The queue.

void NotifyQueue::add(TimePoint now, NotifyEvent event, JsonObject fields) {
  const auto waiting = std::ranges::find(waiting_, event, &Waiting::event);
  if (waiting != waiting_.end()) {
    waiting->fields = std::move(fields);
    ++waiting->left_out;
    return;
  }
  TimePoint due = now;
  const auto taken = std::ranges::find(taken_, event, &std::pair<NotifyEvent, TimePoint>::first);
  const bool is_limited = event == NotifyEvent::kRestarted || event == NotifyEvent::kBest ||
                          event == NotifyEvent::kStalled;
  if (is_limited && taken != taken_.end()) due = std::max(due, taken->second + kNoticePause);
  waiting_.push_back({event, std::move(fields), due});
}

std::optional<NotifyQueue::Due> NotifyQueue::take(TimePoint now) {
  const auto first =
      std::ranges::find_if(waiting_, [&](const Waiting& one) { return one.due <= now; });
  if (first == waiting_.end()) return {};
  first->fields.add("left_out", first->left_out);
  Due due{first->event, first->fields.text()};
  std::erase_if(taken_, [&](const auto& one) { return one.first == due.event; });
  taken_.emplace_back(due.event, now);
  waiting_.erase(first);
  return due;
}

TimePoint NotifyQueue::due_at() const {
  TimePoint due = TimePoint::max();
  for (const Waiting& one : waiting_) due = std::min(due, one.due);
  return due;
}

void NotifyQueue::hurry() {
  for (Waiting& one : waiting_) one.due = TimePoint();
}

// The text.

void OutputTail::add(std::string_view output) {
  text_.append(output.substr(output.size() - std::min(output.size(), kTailBytes)));
  if (text_.size() > 2 * kTailBytes) text_.erase(0, text_.size() - kTailBytes);
}

std::vector<std::string> OutputTail::lines(std::size_t bytes_max) const {
  std::vector<std::string> lines;
  std::string_view left = text_;
  if (left.ends_with('\n')) left.remove_suffix(1);
  while (!left.empty() && lines.size() < kTailLinesMax) {
    const std::size_t end = left.rfind('\n');
    const std::size_t begin = end == left.npos ? 0 : end + 1;
    std::string line = as_utf8(left.substr(begin), kLineBytesMax);
    const std::size_t bytes = json_text(line).size() + 1;
    if (bytes > bytes_max) break;
    bytes_max -= bytes;
    lines.push_back(std::move(line));
    left = left.substr(0, end == left.npos ? 0 : end);
  }
  std::ranges::reverse(lines);
  return lines;
}

std::string as_utf8(std::string_view text, std::size_t bytes_max) {
  std::string valid;
  while (!text.empty()) {
    const std::size_t length = sequence_at(text);
    const std::string_view next = length > 0 ? text.substr(0, length) : kReplacementMark;
    if (valid.size() + next.size() > bytes_max) break;
    valid += next;
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return valid;
}

JsonObject notice_fields(const wire::agent::ProcessSpec& spec, const NoticeFacts& facts,
                         const OutputTail& output) {
  JsonObject fields;
  fields.add("event", name_of(facts.event)).add("job", spec.job());
  fields.add("cluster", as_utf8(spec.notify().cluster(), kNoticeNameBytesMax));
  fields.add("node", as_utf8(spec.notify().node(), kNoticeNameBytesMax))
      .add("process", spec.name());
  fields.add("unix_ms", facts.unix_ms).add("text", as_utf8(facts.text, kNoticeTextBytesMax));
  fields.add("cause", as_utf8(facts.cause, kNoticeTextBytesMax));
  JsonObject figures;
  if (facts.progress) {
    const wire::Progress& progress = *facts.progress;
    fields.add("pass", progress.pass()).add("passes", progress.passes());
    figures.add("cost", progress.cost());
    figures.add("examples_per_second", progress.examples_per_second());
    if (progress.has_best()) {
      JsonObject best;
      best.add("pass", progress.best().pass());
      best.add("figure", as_utf8(progress.best().figure(), kNoticeNameBytesMax));
      fields.add("best", best.add("value", progress.best().value()));
    }
  }
  fields.add("figures", figures);
  JsonArray lines;
  for (const std::string& line : output.lines(kLinesBytesMax)) lines.add(line);
  return fields.add("output", lines);
}

bool is_disk_low(std::uint64_t free_bytes, std::uint64_t total_bytes) {
  return free_bytes < kDiskBytesMin || free_bytes < total_bytes / kDiskShareMin;
}

}  // namespace paddle::agent
