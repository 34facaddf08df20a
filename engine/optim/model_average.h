// Model averaging: each parameter's average over its recent updates, for tests and snapshots.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "proto/parameters.pb.h"

namespace paddle::optim {

constexpr std::uint64_t kAverageWindowMinDefault = 10000;   // updates, as in v0.10
constexpr std::uint64_t kAverageWindowMaxDefault = 100000;  // updates; float32 resolves 1/k of it

// The weight 1 / k of update `count` (from 1) of a block or row in its average:
//   average += (value - average) / k,  k = min(n, max(window_min, min(window_max, window n)))
// with n = count. It is the plain mean of the first window_min updates, then an average over about
// the last fraction `window` of them (polynomial-decay averaging: Shamir and Zhang, 2013). v0.10
// keeps three sums and a uniform average over window n to 2 window n updates instead. One plane
// that depends on the count alone also serves the rows of a sparse table, each of which counts its
// own updates. The average must be valid and its window above 0.
float average_weight(const wire::ModelAverage& average, std::uint64_t count);

// Exchanges a value and its average, the last plane of `state`. A snapshot holds them exchanged, so
// that a reader of values gets the average and training resumes from the value.
void swap_average(std::span<float> value, std::span<float> state);

// kUsage: the window is outside [0, 1], or window_min over window_max.
Status validate(const wire::ModelAverage& average);

}  // namespace paddle::optim
