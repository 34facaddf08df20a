// The pace of each running process of a job: it makes progress, waits for another, or hangs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/cluster/cluster_session.h"
#include "remote/client/agent_client.h"

namespace paddle::cli {

// A process reports about once a second, but not while it hangs or waits for another.
constexpr std::int64_t kTrainerSilenceMaxMs = 10'000;
constexpr std::int64_t kPserverSilenceMaxMs = 5'000;
// A process sends its supervisor a notice every second, whatever it waits for. It sends none if it
// or its machine is stopped.
constexpr std::int64_t kNoticeAgeMaxMs = 3'000;
// Heartbeats between trainers and pservers count as missed after this time, which is the engine's
// heartbeat::kDeadAfter.
constexpr std::int64_t kMissedMinMs = 3'000;
// Well below the two limits, so that waiting processes are known to wait when the process they wait
// for is called stalled, although reports are up to a second apart.
constexpr std::int64_t kWaitingSilenceMinMs = 3'000;
// Before the first batch of a pass a trainer may read and shuffle for long.
constexpr std::int64_t kFirstBatchMaxMs = 60'000;
constexpr std::int64_t kBatchesOfSilence = 3;  // a slow batch is no stall
constexpr std::int64_t kSlowBatchMaxMs = 300'000;

enum class Pace { kUnknown, kStarting, kRunning, kTesting, kSaving, kWaiting, kSuspect, kStalled };
// Whether the process gives no sign of life, or makes no progress.
constexpr bool hangs(Pace pace) {
  return pace == Pace::kSuspect || pace == Pace::kStalled;
}

struct ProcessPace {
  Pace pace = Pace::kUnknown;
  std::int64_t silent_ms = 0;               // since its last report
  std::vector<std::string> waits_for;       // with kWaiting: processes
  std::int64_t notice_age_ms = 0;           // since its last notice, if it sends any
  std::vector<std::string> missed_by = {};  // processes that its heartbeats do not reach
  std::int64_t missed_ms = 0;               // the longest of those times
};

// By name, for the running processes of one job.
using Paces = std::map<std::string, ProcessPace>;
// A trainer without progress is stalled if others wait for it, or if no process waits for another.
// Otherwise it waits for the processes that pservers or other trainers name, or for a pserver that
// hangs. A process without a sign of life is first suspect and then stalled.
Paces paces_of(const std::vector<ProcessOnNode>& processes);

// "stalled 2m42s", "no response for 4.2s", "waits for trainer-1", "testing", "saving 12s"; ""
// for a process that runs.
std::string describe(const ProcessPace& pace);
// "trainer-1 on n-1 is stalled: no progress for 2m42s" or "trainer-1 on n-1: no response for
// 4.2s"; for processes that wait for it: "trainer-0 waits for trainer-1 (2m42s)". For a process
// that runs but is cut off: "trainer-1 on n-1: no heartbeat reaches pserver-0 for 4.2s".
std::vector<std::string> describe_stalls(const Paces& paces,
                                         const std::map<std::string, std::string>& node_of_process);

}  // namespace paddle::cli
