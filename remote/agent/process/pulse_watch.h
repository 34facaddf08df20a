// The decision that a process hangs, by its pulse (proto/supervision.proto); free of side effects.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"
#include "proto/supervision.pb.h"

namespace paddle::agent {

class PulseWatch {
 public:
  // `limit`: how long a process may hang; zero: for ever.
  explicit PulseWatch(Duration limit) : limit_(limit) {}

  bool is_on() const { return limit_ > Duration::zero(); }
  // A new life of the process, which was started now.
  void restart(TimePoint now);
  void on_pulse(TimePoint now, const wire::Pulse& pulse);
  // The watcher itself stood still, as on a machine that was suspended: the process may have, too.
  void forgive(TimePoint now);
  // Why the process hangs, or nothing. One without a sign of life hangs when the limit has passed;
  // one whose main work makes no step, when 20 times its longest step has passed as well.
  std::optional<std::string> hangs(TimePoint now) const;

 private:
  Duration limit_;
  std::optional<wire::Pulse> last_;
  TimePoint heard_at_;
  TimePoint stepped_at_;  // it made a step then, or waited for others
  Duration longest_{};    // time without a step that ended with one; as seen by pulses
  bool has_stepped_ = false;
};

}  // namespace paddle::agent
