// Counts that the shards report at the end of a pass, and the progress of a job.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/tally.h"

namespace paddle::client {

// A sparse table over all its ports, at the end of a pass.
struct TableTotals {
  std::uint64_t rows = 0;
  std::uint64_t bytes = 0;          // of memory on the pservers
  std::uint64_t payload_bytes = 0;  // values and optimizer state in it
  std::uint64_t candidates = 0;     // ids not admitted yet
  std::uint64_t expired = 0;        // in this pass
  std::uint64_t evicted = 0;
  std::uint64_t shrunk = 0;  // removed for a low score at the end of the pass
};

// Pushes to one port in a pass, over all trainers.
struct PushCounts {
  std::uint64_t pushes = 0;
  std::uint64_t batches = 0;        // more than pushes where batches were merged
  std::vector<std::uint64_t> lags;  // pushes by lag: 0, 1, 2-3, 4-7, ... batches
};

// Totals of a pass over all trainers.
struct PassTotals {
  bool paused = false;  // the pass is not over: some trainer ended it early
  std::uint64_t samples = 0;
  double cost = 0;                              // sum over samples
  std::uint64_t discarded = 0;                  // async pushes dropped for lag
  Tally tally;                                  // sum of the trainers' tallies
  std::map<std::uint32_t, TableTotals> tables;  // by parameter
  PushCounts dense;                             // of the first dense port, and the first sparse one
  PushCounts sparse;
};

struct JobProgress {
  std::uint64_t samples = 0;  // of all trainers
  std::uint64_t passes = 0;   // finished
  std::uint64_t batches = 0;  // of the next pass that this trainer has behind it
};

}  // namespace paddle::client
