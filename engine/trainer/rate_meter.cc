#include "engine/trainer/rate_meter.h"

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

}  // namespace paddle::trainer
