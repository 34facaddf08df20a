// The rate of training as reports tell it: once a second, and at each change of activity.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace paddle::trainer {

// Less training than this tells no rate: a report right after a test would divide a batch or none
// by the time of the test.
constexpr auto kRateWindow = std::chrono::seconds(1);

class RateMeter {
 public:
  // examples: trained on in all. trained: whether the time since the last call was spent on that,
  // and not on a test or a save. Returns examples a second of the last kRateWindow of training or
  // more; 0 before the first.
  double add(TimePoint now, std::uint64_t examples, bool trained);

 private:
  std::optional<TimePoint> last_;
  Duration window_{};
  std::uint64_t examples_ = 0;  // at the start of the window
  double rate_ = 0;
};

// The rate while a trainer computes and does not wait: the median of its last reports, which one
// that was disturbed does not move.
class UsualRate {
 public:
  void add(std::uint64_t examples, Duration busy) {
    examples_ += examples;
    busy_ += busy;
  }
  // Ends the time of a report, unless nothing was added. Examples a second; 0 before the third.
  double take();

 private:
  static constexpr std::size_t kReportsMin = 3;

  std::uint64_t examples_ = 0;
  Duration busy_{};
  std::array<double, 5> last_{};  // a ring
  std::size_t reports_ = 0;
};

}  // namespace paddle::trainer
