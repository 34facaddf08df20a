// Decides whether a process hangs, by its pulse (proto/supervision.proto); free of side effects.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"
#include "proto/supervision.pb.h"

namespace paddle::agent {

class PulseWatch {
 public:
  // `limit`: how long a process may hang; zero: without limit.
  explicit PulseWatch(Duration limit) : limit_(limit) {}

  bool is_on() const { return limit_ > Duration::zero(); }
  // Call when the process was started again, at `now`.
  void restart(TimePoint now);
  void on_pulse(TimePoint now, const wire::Pulse& pulse);
  // Call when the watcher itself did not run, for example on a machine that was suspended: the
  // process may not have run either, so the time until `now` is not counted.
  void discount(TimePoint now);
  // Why the process hangs, or nothing if it does not. A process without a pulse hangs after the
  // limit. A process whose main work makes no step hangs after the limit or after 20 times its
  // longest step, whichever is longer.
  std::optional<std::string> hangs(TimePoint now) const;

 private:
  Duration limit_;
  std::optional<wire::Pulse> last_;
  TimePoint pulsed_at_;   // when the latest pulse arrived
  TimePoint stepped_at_;  // when it last made a step, or waited for other processes
  Duration longest_{};    // longest time from one step to the next, as seen by pulses
  bool has_stepped_ = false;
};

}  // namespace paddle::agent
