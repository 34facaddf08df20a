// Decides whether and when an ended process is started again; free of side effects.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "base/clock.h"
#include "proto/agent.pb.h"

namespace paddle::agent {

// A run of a process that has ended.
struct Run {
  int wait_status = 0;  // as wait(2) reports it
  TimePoint started;
  TimePoint ended;
  std::optional<bool> has_progressed;  // nothing: the process does not report it
  // When the run last progressed. A run that lost a peer afterwards has waited since then.
  std::optional<TimePoint> progressed_at = {};
};

class RestartPolicy {
 public:
  explicit RestartPolicy(const wire::agent::ProcessSpec& spec)
      : restarts_max_(spec.restarts()), any_exit_(spec.any_exit()) {}

  // Counts a failure that an earlier supervisor of the process has seen.
  void add_failure(TimePoint failed) { failed_.push_back(failed); }
  // The pause before the next start; nothing: the process is not started again. Pauses double with
  // each failure of the process itself, until a run has progressed or was long. A process that
  // exited because it lost a peer is restarted after the shortest pause.
  std::optional<Duration> next(const Run& run);
  std::uint32_t failures() const { return static_cast<std::uint32_t>(failed_.size()); }

 private:
  std::optional<Duration> after_lost_peer(const Run& run);
  std::optional<Duration> after_failure(const Run& run);

  std::uint32_t restarts_max_;
  bool any_exit_;
  std::deque<TimePoint> failed_;              // the process's own failures of the last hour
  std::optional<TimePoint> peers_lost_from_;  // begin of the series of lost peers without progress
  Duration pause_{};
};

}  // namespace paddle::agent
