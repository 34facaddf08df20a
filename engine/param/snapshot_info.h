// What a snapshot says about the job besides the parameters themselves.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/parameters.pb.h"

namespace paddle::param {

struct SnapshotInfo {
  wire::Optimizer optimizer;
  std::uint64_t pass = 0;
  std::uint64_t step = 0;     // the next step of every trainer's lanes
  std::uint64_t samples = 0;  // pushed by all trainers so far
  std::uint64_t seed = 0;
  std::vector<std::uint64_t> trainer_cursors;  // next batch of each trainer's data, by trainer id
};

struct SparseRow {
  std::uint64_t id = 0;
  std::uint64_t marks = 0;  // RowMarks, packed
  std::vector<float> value;
  std::vector<float> state;  // state_width planes of value.size() floats
};

}  // namespace paddle::param
