// The rows of a table nearest to some of its rows, by the cosine of their values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/snapshot/reader.h"

namespace paddle::inference {

struct Neighbour {
  std::uint64_t id = 0;
  float cosine = 0;
};

struct NearestOptions {
  std::size_t count = 10;  // neighbours of each row
  bool centered = false;   // the mean of all rows is subtracted from each row first
};

// For each id its neighbours, the nearest first; of equally near ones, the smaller id first. Empty
// for an id without a row. A row of a dense parameter is along its last dimension, and its id is
// its number. The rows of a table are read twice, a block at a time, and are never all in memory.
Result<std::vector<std::optional<std::vector<Neighbour>>>> nearest_rows(
    const snapshot::SnapshotReader& snapshot, const wire::ParameterSpec& parameter,
    std::span<const std::uint64_t> ids, const NearestOptions& options);

}  // namespace paddle::inference
