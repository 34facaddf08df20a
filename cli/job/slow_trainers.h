// Trainers that are well below their peers.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace paddle::cli {

// A trainer is slow when its rate is below kSlowRatio of the median of the others. Trainers that
// wait for each other all have the same rate by the wall clock, so their rate while not waiting
// counts too, unless they waited for more than 1 - kBusyRatioMin of their time.
constexpr double kSlowRatio = 0.7;
constexpr double kBusyRatioMin = 0.5;

struct TrainerRate {
  std::string node, role;
  std::optional<double> wall, busy;  // examples/s: in all, and while not waiting for others
};

struct SlowTrainer {
  std::string node, role;
  double rate = 0;    // examples/s
  double median = 0;  // of the other trainers
  bool busy = false;  // both are while not waiting
};
std::vector<SlowTrainer> slow_trainers(const std::vector<TrainerRate>& trainers);

// "trainer-3 on n-2 is slow: 410 examples/s, 38 % of the others' median 1080"
std::string describe(const SlowTrainer& slow);

// The middle value, or the mean of the two in the middle; `values` is not empty.
double median_of(std::vector<double> values);

}  // namespace paddle::cli
