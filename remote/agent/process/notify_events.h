// The events that a supervisor reports about its process and its job (docs/notify.md); free of side
// effects.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "proto/agent.pb.h"
#include "proto/supervision.pb.h"

namespace paddle::agent {

enum class NotifyEvent { kDone, kFailed, kStalled, kRestarted, kBest, kDiskLow };
std::string_view name_of(NotifyEvent event);  // as in [notify] on

// The end of a run of a process.
struct RunEnd {
  int wait_status = 0;    // as wait(2) reports it
  std::string hang = {};  // why its supervisor killed it, or ""
  std::uint64_t out_of_memory_bytes = 0;
  std::optional<wire::Failure> failure = {};  // as the process reported it
  // Peers whose heartbeats had stopped: "trainer 1".
  std::vector<std::string> silent_peers = {};
  bool is_ordered = false;  // a person asked for it
  // paddlectl stopped the rest of a failed job, or would have: the process had ended before.
  bool is_stopped_as_rest = false;
  bool has_ended_before_stop = false;
  bool is_shut_down = false;  // the supervisor received SIGTERM
};

enum class EndKind {
  kDone,
  kSaved,        // it saved its state, and the job can be resumed
  kFailure,      // its own
  kConsequence,  // of a failure that the supervisor of another process reports
  kSilentPeer,   // it lost a peer that may be unable to report anything
  kOrdered,
};
EndKind kind_of(const wire::agent::ProcessSpec& spec, const RunEnd& end);
// "killed by signal 9 (Killed)", "exited with code 6: data/train.txt:3: ...".
std::string cause_of(const RunEnd& end);
// The event of a process that is not started again; nothing: its supervisor reports none.
std::optional<NotifyEvent> event_of_end(const wire::agent::ProcessSpec& spec, const RunEnd& end);

// Whether the job stands still, as trainer 0 sees it: with most strategies it waits for every other
// process.
class StallWatch {
 public:
  // Zero: never.
  explicit StallWatch(Duration limit) : limit_(limit) {}
  // Call when the process was started, at `now`.
  void restart(TimePoint now);
  void on_notice(TimePoint now, const wire::Notice& notice);
  // Call when the watcher itself did not run: the time until `now` is not counted.
  void discount(TimePoint now);
  // "no progress for 130 s; it waits for trainer-1", once for each stall.
  std::optional<std::string> look(TimePoint now);

 private:
  Duration limit_;
  TimePoint noticed_at_;
  TimePoint progressed_at_;
  // Since then it depends on other processes, without a step of its own.
  TimePoint waits_since_;
  std::optional<std::uint64_t> steps_;
  std::optional<wire::Progress> last_;
  bool is_reported_ = false;  // the current stall
};

// The notices that wait for their turn: at most one of each event.
class NotifyQueue {
 public:
  // A notice replaces one of the same event that still waits. The next one of kRestarted, kBest or
  // kStalled waits until a minute after the one before.
  void add(TimePoint now, NotifyEvent event, JsonObject fields);
  // The next notice that is due, as the text of its JSON object, and its event.
  struct Due {
    NotifyEvent event;
    std::string text;
  };
  std::optional<Due> take(TimePoint now);
  TimePoint due_at() const;  // max(): none waits
  void hurry();              // all that wait are due at once
  void clear() { waiting_.clear(); }
  bool is_empty() const { return waiting_.empty(); }

 private:
  struct Waiting {
    NotifyEvent event;
    JsonObject fields;
    TimePoint due;
    std::uint64_t left_out = 0;  // notices that this one has replaced
  };
  std::vector<Waiting> waiting_;                          // in the order of their first notices
  std::vector<std::pair<NotifyEvent, TimePoint>> taken_;  // the latest of each event
};

// The last output of a process.
class OutputTail {
 public:
  void add(std::string_view output);
  // At most 20 lines, oldest first, as valid UTF-8 and at most `bytes_max` bytes of JSON together.
  std::vector<std::string> lines(std::size_t bytes_max) const;

 private:
  std::string text_;
};

// The text with U+FFFD in place of bytes that are not UTF-8, at most `bytes_max` bytes of it.
std::string as_utf8(std::string_view text, std::size_t bytes_max);

struct NoticeFacts {
  NotifyEvent event = NotifyEvent::kDone;
  std::int64_t unix_ms = 0;
  std::string text;   // a sentence for people
  std::string cause;  // of a failure or a restart
  std::optional<wire::Progress> progress;
};
// The object that the command reads, without "left_out"; below 64 KiB.
JsonObject notice_fields(const wire::agent::ProcessSpec& spec, const NoticeFacts& facts,
                         const OutputTail& output);

// Less than 5 % or 2 GB.
bool is_disk_low(std::uint64_t free_bytes, std::uint64_t total_bytes);

}  // namespace paddle::agent
