// A simulated trainer's memory that outlives it, as its supervisor keeps it.
#pragma once

#include "tests/sim/model.h"

namespace paddle::sim {

// The last push in rounds, from before its first frame is sent.
struct ReplayLog {
  std::uint64_t generations = 0;  // a hash of those of all ports: a rewind forgets everything
  std::uint64_t pass = 0;
  std::uint64_t batch = 0;  // of the pass, from 1
  Gradients gradients;
};

struct TrainerMemory {
  std::optional<ReplayLog> push;
  bool is_leaving = false;
};

}  // namespace paddle::sim
