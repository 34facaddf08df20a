// Retention of a job's snapshots on disk.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace paddle::snapshot {

// "pass-00007"
std::string pass_name(std::uint64_t pass);

// Returns the complete snapshot "pass-..." in `folder` with the most passes and steps; "" when
// there is none.
Result<std::string> newest_snapshot(const std::string& folder);

// Removes snapshots in `folder` up to `pass`: those of a stop, and those of a pass but the newest
// `count` and their bases. Later snapshots and other directories stay. kResource.
Status keep_newest(const std::string& folder, std::uint64_t pass, std::uint32_t count);

}  // namespace paddle::snapshot
