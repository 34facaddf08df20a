#include "engine/trainer/rate_meter.h"

#include <algorithm>

namespace paddle::trainer {

double RateMeter::add(TimePoint now, std::uint64_t examples, bool trained) {
  if (last_ && trained) window_ += now - *last_;
  last_ = now;
  if (window_ < kRateWindow) return rate_;
  const double seconds = std::chrono::duration<double>(window_).count();
  rate_ = static_cast<double>(examples - examples_) / seconds;
  window_ = {};
  examples_ = examples;
  return rate_;
}

double UsualRate::take() {
  if (busy_ > Duration::zero()) {
    last_[reports_++ % last_.size()] =
        static_cast<double>(examples_) / std::chrono::duration<double>(busy_).count();
    examples_ = 0;
    busy_ = {};
  }
  if (reports_ < kReportsMin) return 0;
  auto sorted = last_;
  const auto end = sorted.begin() + static_cast<std::ptrdiff_t>(std::min(reports_, sorted.size()));
  const auto middle = sorted.begin() + (end - sorted.begin()) / 2;
  std::nth_element(sorted.begin(), middle, end);
  return *middle;
}

}  // namespace paddle::trainer
