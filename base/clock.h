// Monotonic time behind an interface, so that a test can control it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace paddle {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
};

inline TimePoint clock_now() {
  return SteadyClock().now();
}

// A timeout for poll(2): rounded up, 0 when `end` has passed.
inline int milliseconds_until(TimePoint end) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - SteadyClock().now());
  return static_cast<int>(std::clamp<long long>(left.count(), 0, 1 << 30));
}

// The wall clock, for records that other machines read.
// INVARIANT: the wall clock decides nothing.
inline std::int64_t unix_milliseconds() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(since).count();
}

}  // namespace paddle
