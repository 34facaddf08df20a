// Events of a job with their times: starts, tests, snapshots, warnings, restarts, stalls, ends.
#pragma once

#include <string>
#include <vector>

#include "cli/report/record.h"

namespace paddle::cli {

// A pause between two log points of a pass is a stall if it takes at least kStallMsMin and
// kStallFactor times as long as the usual pause.
constexpr std::int64_t kStallMsMin = 10'000;
constexpr std::int64_t kStallFactor = 8;

// The events by time. Processes that start or end in the same way are one event. `folder`: the
// job's folder, with its logs.
std::vector<JobEvent> events_of(const JobRecord& record, const std::string& folder);

}  // namespace paddle::cli
