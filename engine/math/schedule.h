// Learning rate schedules: the learning rate as a function of progress. Every optimizer follows its
// schedule (v0.10's adagrad, adam and adamax did not).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "proto/parameters.pb.h"

namespace paddle::optim {

// The position of a job at an update: n = samples pushed by all trainers so far, this update's
// included; pass counts from 0. Both continue across restarts.
struct Progress {
  std::uint64_t samples = 0;
  std::uint64_t pass = 0;
};

// The keys of [optimizer] that a schedule reads: learning_rate_decay_a and _b, or
// learning_rate_args.
enum class ScheduleKeys : std::uint8_t { kNone, kDecay, kSteps };

constexpr double kDecayMax = 1e18;  // keeps every formula finite

struct Schedule {
  struct Range {
    double min = 0;
    double max = kDecayMax;
    bool contains(double value) const { return value >= min && value <= max; }
  };
  std::string_view name;
  ScheduleKeys keys = ScheduleKeys::kNone;
  double (*rate)(const wire::LearningRateSchedule&, double rate, const Progress&) = nullptr;
  Range a = {};
  Range b = {};
};
std::span<const Schedule> schedules();
// Null for an unknown name; "" is "constant".
const Schedule* find_schedule(std::string_view name);

// The optimizer's learning rate under its schedule (names and formulas of v0.10), r =
// learning_rate:
//   constant     r
//   poly         r (1 + a n)^-b
//   caffe_poly   r (1 - n/a)^b, 0 from n = a on
//   exp          r a^(n/b)
//   discexp      r a^floor(n/b)
//   linear       max(r - a n, b)
//   manual       r times the rate of the first step with n <= until, or else of the last step
//   pass_manual  the same by pass
// The result is multiplied by min(1, n / warmup_samples) if a warm-up is given.
// The optimizer must be valid. Computed in float64 without libm, rounded once.
float learning_rate(const wire::Optimizer& optimizer, const Progress& progress);

// kUsage: unknown name (with a suggestion), or values the formula is not defined for.
Status validate(const wire::LearningRateSchedule& schedule);

}  // namespace paddle::optim
