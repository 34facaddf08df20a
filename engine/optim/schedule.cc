#include "engine/optim/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "base/text.h"
#include "engine/optim/power.h"

namespace paddle::optim {
namespace {

constexpr std::array<std::string_view, 8> kNames = {
    "constant", "poly", "caffe_poly", "exp", "discexp", "linear", "manual", "pass_manual"};

constexpr double kDecayMax = 1e18;  // keeps every formula finite

double stepped(const wire::LearningRateSchedule& schedule, std::uint64_t position) {
  for (const auto& step : schedule.steps()) {
    if (position <= step.until()) return static_cast<double>(step.rate());
  }
  return static_cast<double>(schedule.steps().rbegin()->rate());
}

double scheduled(const wire::LearningRateSchedule& schedule, double rate,
                 const Progress& progress) {
  const std::string_view name = schedule.name();
  const auto n = static_cast<double>(progress.samples);
  const double a = schedule.a();
  const double b = schedule.b();
  if (name.empty() || name == "constant") return rate;
  if (name == "poly") return rate * real_power(1 + a * n, -b);
  if (name == "caffe_poly") return 1 - n / a > 0 ? rate * real_power(1 - n / a, b) : 0;
  if (name == "exp") return rate * real_power(a, n / b);
  if (name == "discexp") return rate * real_power(a, std::floor(n / b));
  if (name == "linear") return std::max(rate - a * n, b);
  if (name == "manual") return rate * stepped(schedule, progress.samples);
  PADDLE_CHECK(name == "pass_manual");
  return rate * stepped(schedule, progress.pass);
}

Error refuse(std::string message) {
  return Error{Errc::kUsage, std::move(message), ""};
}

Status check_steps(const wire::LearningRateSchedule& schedule) {
  if (schedule.steps().empty()) {
    return refuse(fmt::format("learning_rate_schedule {} has no steps", schedule.name()));
  }
  for (int i = 0; i < schedule.steps_size(); ++i) {
    const auto& step = schedule.steps(i);
    if (i > 0 && step.until() <= schedule.steps(i - 1).until()) {
      return refuse(fmt::format("the steps of learning_rate_schedule {} do not ascend: {} after {}",
                                schedule.name(), step.until(), schedule.steps(i - 1).until()));
    }
    if (!std::isfinite(step.rate()) || step.rate() < 0) {
      return refuse(
          fmt::format("a step of learning_rate_schedule {} has rate {}, must be at "
                      "least 0",
                      schedule.name(), step.rate()));
    }
  }
  return {};
}

}  // namespace

float learning_rate(const wire::Optimizer& optimizer, const Progress& progress) {
  const wire::LearningRateSchedule& schedule = optimizer.schedule();
  double rate = scheduled(schedule, static_cast<double>(optimizer.learning_rate()), progress);
  if (progress.samples < schedule.warmup_samples()) {
    rate *= static_cast<double>(progress.samples) / static_cast<double>(schedule.warmup_samples());
  }
  return static_cast<float>(rate);
}

Status validate(const wire::LearningRateSchedule& schedule) {
  const std::string& name = schedule.name();
  if (!name.empty() && std::find(kNames.begin(), kNames.end(), name) == kNames.end()) {
    const std::string suggestion = nearest(name, kNames);
    return Error{
        Errc::kUsage,
        fmt::format("unknown learning_rate_schedule '{}'{}", escape_control(name),
                    suggestion.empty() ? "" : fmt::format(", did you mean '{}'?", suggestion)),
        fmt::format("the schedules are {}", fmt::join(kNames, ", "))};
  }
  // Negated comparisons refuse NaN too.
  if (!(schedule.a() >= 0 && schedule.a() <= kDecayMax) ||
      !(schedule.b() >= 0 && schedule.b() <= kDecayMax)) {
    return refuse(
        fmt::format("learning_rate_decay_a is {} and learning_rate_decay_b is {}, must "
                    "be 0 to {}",
                    schedule.a(), schedule.b(), kDecayMax));
  }
  if (name == "caffe_poly" && schedule.a() == 0) {
    return refuse("learning_rate_schedule caffe_poly needs learning_rate_decay_a above 0");
  }
  const bool is_power = name == "exp" || name == "discexp";
  if (is_power && (schedule.a() == 0 || schedule.a() > 1 || schedule.b() < 1)) {
    return refuse(
        fmt::format("learning_rate_schedule {} needs learning_rate_decay_a above 0 and "
                    "at most 1, and learning_rate_decay_b at least 1",
                    name));
  }
  return name == "manual" || name == "pass_manual" ? check_steps(schedule) : Status();
}

}  // namespace paddle::optim
