#include "engine/optim/model_average.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"

namespace paddle::optim {
namespace {

std::uint64_t window_min(const wire::ModelAverage& average) {
  if (average.window_min() > 0) return average.window_min();
  return average.window_max() > 0 ? std::min(kAverageWindowMinDefault, average.window_max())
                                  : kAverageWindowMinDefault;
}

std::uint64_t window_max(const wire::ModelAverage& average) {
  if (average.window_max() > 0) return average.window_max();
  return std::max(kAverageWindowMaxDefault, average.window_min());
}

}  // namespace

float average_weight(const wire::ModelAverage& average, std::uint64_t count) {
  const auto n = static_cast<double>(count);
  const double reach =
      std::min(static_cast<double>(window_max(average)), static_cast<double>(average.window()) * n);
  const double k = std::min(n, std::max(static_cast<double>(window_min(average)), reach));
  return static_cast<float>(1 / k);
}

void swap_average(std::span<float> value, std::span<float> state) {
  PADDLE_CHECK(state.size() >= value.size());
  std::swap_ranges(value.begin(), value.end(), state.end() - std::ssize(value));
}

Status validate(const wire::ModelAverage& average) {
  // The comparison is negated so that it refuses NaN too.
  if (!(average.window() >= 0 && average.window() <= 1)) {
    return Error{Errc::kUsage,
                 fmt::format("average_window is {}, must be 0 to 1", average.window()), ""};
  }
  if (window_min(average) > window_max(average)) {
    return Error{Errc::kUsage,
                 fmt::format("min_average_window {} is over max_average_window {}",
                             window_min(average), window_max(average)),
                 ""};
  }
  return {};
}

}  // namespace paddle::optim
