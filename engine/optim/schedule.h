// The learning rate as a function of progress. Every optimizer follows it (v0.10's adagrad, adam
// and adamax did not).
#pragma once

#include <cstdint>

#include "base/result.h"
#include "proto/parameters.pb.h"

namespace paddle::optim {

// Where the job is at an update: n = samples pushed by all trainers so far, this update's included;
// pass counts from 0. Both go on over restarts.
struct Progress {
  std::uint64_t samples = 0;
  std::uint64_t pass = 0;
};

// The optimizer's learning rate times or after its schedule (names and formulas of v0.10), r =
// learning_rate:
//   constant     r
//   poly         r (1 + a n)^-b
//   caffe_poly   r (1 - n/a)^b, 0 from n = a on
//   exp          r a^(n/b)
//   discexp      r a^floor(n/b)
//   linear       max(r - a n, b)
//   manual       r times the rate of the first step with n <= until; the last one's beyond
//   pass_manual  the same by pass
// and all that times min(1, n / warmup_samples) where a warm-up is given.
// The optimizer must be valid. Computed in float64 without libm, rounded once.
float learning_rate(const wire::Optimizer& optimizer, const Progress& progress);

// kUsage: unknown name (with a suggestion), or values the formula is not defined for.
Status validate(const wire::LearningRateSchedule& schedule);

}  // namespace paddle::optim
