// Retention of a job's snapshots on disk.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace paddle::snapshot {

// "pass-00007"
std::string pass_name(std::uint64_t pass);

// Names of the folders in `folder` that are snapshots or were: "pass-" and a digit, not empty, and
// finished. In order. kResource.
Result<std::vector<std::string>> snapshot_names(const std::string& folder);

// Returns the snapshot in `folder` with the most passes and steps; "" when there is none. kData:
// the MANIFEST of one of them is missing or damaged, so that it cannot be told whether it is the
// newest.
Result<std::string> newest_snapshot(const std::string& folder);

// Removes snapshots in `folder` up to `pass`: those of a stop, and those of a pass but the newest
// `count` and their bases. Later snapshots and other directories stay. kResource.
Status keep_newest(const std::string& folder, std::uint64_t pass, std::uint32_t count);

}  // namespace paddle::snapshot
