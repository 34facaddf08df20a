// Sums over a range of examples: costs, and the counters of the evaluators.
#pragma once

#include <cstdint>

#include "base/tally.h"

namespace paddle::trainer {

struct Score {
  std::uint64_t samples = 0;
  double cost = 0;
  Tally tally;  // of the evaluators

  void add(const Score& other) {
    samples += other.samples;
    cost += other.cost;
    tally.add(other.tally);
  }
};

}  // namespace paddle::trainer
