// Events of a job with their times: starts, tests, snapshots, warnings, restarts, stalls, ends.
#pragma once

#include <string>
#include <vector>

#include "cli/report/record.h"

namespace paddle::cli {

// A pause between two log points of a pass is a stall from kStallMsMin on, when it is also
// kStallFactor times as long as the usual one.
constexpr std::int64_t kStallMsMin = 10'000;
constexpr std::int64_t kStallFactor = 8;

// By time. Processes that start or end alike are one event; `folder` is the job's, with its logs.
std::vector<JobEvent> events_of(const JobRecord& record, const std::string& folder);

}  // namespace paddle::cli
