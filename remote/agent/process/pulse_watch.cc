#include "remote/agent/process/pulse_watch.h"

#include <algorithm>

#include <fmt/format.h>

namespace paddle::agent {
namespace {

constexpr int kLongestSteps = 20;
// Pulses arrive every second; after a longer gap than this the process had been stopped.
constexpr Duration kGap = std::chrono::seconds(5);

std::string seconds(Duration time) {
  return fmt::format("{} s", std::chrono::duration_cast<std::chrono::seconds>(time).count());
}

}  // namespace

void PulseWatch::restart(TimePoint now) {
  *this = PulseWatch(limit_);
  pulsed_at_ = now;
}

void PulseWatch::on_pulse(TimePoint now, const wire::Pulse& pulse) {
  // A process that was stopped for a while made no step in that time.
  if (last_ && now - pulsed_at_ > kGap) stepped_at_ += now - pulsed_at_;
  pulsed_at_ = now;
  const bool has_moved = last_ && pulse.steps() != last_->steps();
  if (has_moved) {
    longest_ = std::max(longest_, now - stepped_at_);
    has_stepped_ = true;
  }
  if (!last_ || has_moved || !pulse.is_stepping()) stepped_at_ = now;
  last_ = pulse;
}

void PulseWatch::discount(TimePoint now) {
  pulsed_at_ = stepped_at_ = now;
}

std::optional<std::string> PulseWatch::hangs(TimePoint now) const {
  if (!is_on()) return {};
  if (const Duration silent = now - pulsed_at_; silent >= limit_) {
    return fmt::format("no response for {}", seconds(silent));
  }
  const Duration still = now - stepped_at_;
  if (!has_stepped_ || still < std::max(limit_, kLongestSteps * longest_)) return {};
  return fmt::format("one step has taken {} so far, the longest before took {}", seconds(still),
                     seconds(longest_));
}

}  // namespace paddle::agent
