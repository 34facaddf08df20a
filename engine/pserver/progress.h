// How far a shard is in its job, and its totals.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/wire.pb.h"

namespace paddle::pserver {

struct ShardProgress {
  bool ready = false;          // the initial values are in place
  bool stop = false;           // a trainer has asked for the job's end
  std::uint64_t step = 0;      // updates of the whole job; with rounds, the current round
  std::uint64_t updates = 0;   // batches applied outside rounds, by which a push's lag is counted
  std::uint64_t requests = 0;  // taken from trainers
  std::uint64_t passes_finished = 0;
  std::uint64_t samples = 0;  // of the whole job
  wire::PassFinished pass;    // totals of the current pass
};

// Contents of a port, and its work since the process began.
struct ShardStatistics {
  std::uint64_t rows = 0;   // of sparse tables
  std::uint64_t bytes = 0;  // parameters and optimizer state
  std::uint64_t pushes = 0;
  std::uint64_t batches = 0;  // a merged push has several
  // Pushes by lag: 0, 1, 2-3, 4-7, ... A push's lag is the number of batches that the shard had
  // applied since it last gave the trainer values or rows.
  std::vector<std::uint64_t> lags;
};

}  // namespace paddle::pserver
