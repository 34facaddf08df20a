#include "engine/math/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "base/named_rows.h"
#include "base/text.h"
#include "engine/math/power.h"

namespace paddle::optim {
namespace {

using Wire = wire::LearningRateSchedule;

double constant(const Wire& /*schedule*/, double rate, const Progress& /*progress*/) {
  return rate;
}

double poly(const Wire& schedule, double rate, const Progress& progress) {
  return rate * real_power(1 + schedule.a() * static_cast<double>(progress.samples), -schedule.b());
}

double caffe_poly(const Wire& schedule, double rate, const Progress& progress) {
  const double left = 1 - static_cast<double>(progress.samples) / schedule.a();
  return left > 0 ? rate * real_power(left, schedule.b()) : 0;
}

double exp(const Wire& schedule, double rate, const Progress& progress) {
  return rate * real_power(schedule.a(), static_cast<double>(progress.samples) / schedule.b());
}

double discexp(const Wire& schedule, double rate, const Progress& progress) {
  return rate *
         real_power(schedule.a(), std::floor(static_cast<double>(progress.samples) / schedule.b()));
}

double linear(const Wire& schedule, double rate, const Progress& progress) {
  return std::max(rate - schedule.a() * static_cast<double>(progress.samples), schedule.b());
}

double stepped(const Wire& schedule, double rate, std::uint64_t position) {
  for (const auto& step : schedule.steps()) {
    if (position <= step.until()) return rate * static_cast<double>(step.rate());
  }
  return rate * static_cast<double>(schedule.steps().rbegin()->rate());
}

double manual(const Wire& schedule, double rate, const Progress& progress) {
  return stepped(schedule, rate, progress.samples);
}

double pass_manual(const Wire& schedule, double rate, const Progress& progress) {
  return stepped(schedule, rate, progress.pass);
}

constexpr double kPositive = std::numeric_limits<double>::min();

constexpr std::array<Schedule, 8> kSchedules{{
    {"constant", ScheduleKeys::kNone, constant},
    {"poly", ScheduleKeys::kDecay, poly},
    {"caffe_poly", ScheduleKeys::kDecay, caffe_poly, {kPositive, kDecayMax}},
    {"exp", ScheduleKeys::kDecay, exp, {kPositive, 1}, {1, kDecayMax}},
    {"discexp", ScheduleKeys::kDecay, discexp, {kPositive, 1}, {1, kDecayMax}},
    {"linear", ScheduleKeys::kDecay, linear},
    {"manual", ScheduleKeys::kSteps, manual},
    {"pass_manual", ScheduleKeys::kSteps, pass_manual},
}};

Error refuse(std::string message) {
  return Error{Errc::kUsage, std::move(message)};
}

Status check_steps(const Wire& schedule) {
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
          fmt::format("a step of learning_rate_schedule {} has rate {}, must be at least 0",
                      schedule.name(), step.rate()));
    }
  }
  return {};
}

}  // namespace

std::span<const Schedule> schedules() {
  return kSchedules;
}

const Schedule* find_schedule(std::string_view name) {
  return find_row(schedules(), name.empty() ? "constant" : name);
}

float learning_rate(const wire::Optimizer& optimizer, const Progress& progress) {
  const Wire& schedule = optimizer.schedule();
  const Schedule* const found = find_schedule(schedule.name());
  PADDLE_CHECK(found != nullptr);
  double rate = found->rate(schedule, static_cast<double>(optimizer.learning_rate()), progress);
  if (progress.samples < schedule.warmup_samples()) {
    rate *= static_cast<double>(progress.samples) / static_cast<double>(schedule.warmup_samples());
  }
  return static_cast<float>(rate);
}

Status validate(const wire::LearningRateSchedule& schedule) {
  const std::string& name = schedule.name();
  const Schedule* const found = find_schedule(name);
  if (found == nullptr) {
    const auto names = row_names(schedules());
    const std::string suggestion = nearest(name, names);
    return Error{
        Errc::kUsage,
        fmt::format("unknown learning_rate_schedule '{}'{}", escape_control(name),
                    suggestion.empty() ? "" : fmt::format(", did you mean '{}'?", suggestion)),
        fmt::format("the schedules are {}", fmt::join(names, ", "))};
  }
  if (!found->a.contains(schedule.a()) || !found->b.contains(schedule.b())) {
    return refuse(
        fmt::format("learning_rate_decay_a is {} and learning_rate_decay_b is {}, must be {} to {} "
                    "and {} to {} for learning_rate_schedule {}",
                    schedule.a(), schedule.b(), found->a.min, found->a.max, found->b.min,
                    found->b.max, found->name));
  }
  return found->keys == ScheduleKeys::kSteps ? check_steps(schedule) : Status();
}

}  // namespace paddle::optim
