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
  std::size_t count = 10;  // of each row
  bool centered = false;   // the mean of all rows is taken from each before
};

// For each id its neighbours, the nearest first and of equal ones the smaller id first; nothing
// where the table has no row for it. A row of a dense parameter is its last dimension, its id is
// its number. A table's rows are read twice, a block at a time, and never all in memory.
Result<std::vector<std::optional<std::vector<Neighbour>>>> nearest_rows(
    const snapshot::SnapshotReader& snapshot, const wire::ParameterSpec& parameter,
    std::span<const std::uint64_t> ids, const NearestOptions& options);

}  // namespace paddle::inference
