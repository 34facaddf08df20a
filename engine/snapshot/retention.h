// Which snapshots of a job stay on disk.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace paddle::snapshot {

// "pass-00007"
std::string pass_name(std::uint64_t pass);

// The directory of the complete snapshot "pass-..." in `folder` that is farthest in the job; ""
// when there is none.
Result<std::string> newest_snapshot(const std::string& folder);

// Removes snapshots "pass-NNNNN" in `folder` but the newest `count` up to and with `pass`, and what
// they are deltas of, and those of a stop in one of these passes. Later passes and what is no
// snapshot stay. kResource.
Status keep_newest(const std::string& folder, std::uint64_t pass, std::uint32_t count);

}  // namespace paddle::snapshot
