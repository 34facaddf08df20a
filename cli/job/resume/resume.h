// Resuming a job that ended before its last pass.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/cluster/context.h"
#include "cli/job/plan.h"
#include "cli/job/resume/source.h"
#include "cli/job/settings.h"

namespace paddle::cli {

struct PreviousRun {
  std::string job;
  std::uint32_t trainers = 0;             // 0: the nodes have no record of them
  std::optional<std::uint32_t> pservers;  // nothing: likewise
  std::optional<JobSettings> settings = {};
  std::map<std::string, std::string> variables = {};  // of --env, with their values
};

// The job asked for, or the latest. A job asked for may be gone from the nodes, with its results
// here. Ends the processes of one whose start was broken off. kUsage when it still runs, or when
// there is none. `output`: the folder of results.
Result<PreviousRun> find_previous_run(Context& context, const ClusterSpec& cluster,
                                      const std::vector<std::size_t>& nodes,
                                      const std::string& asked, const std::string& output);
// kUsage for a change that would leave records out, or train them twice, where the job goes on
// within a pass: `snapshot` is the name of what it goes on from. `workspace`: as typed, or "".
Status check_changes(const std::string& job, const std::string& snapshot,
                     const std::vector<SettingChange>& changes, const std::string& workspace);

// Frees the name of a job whose start was broken off before it had any result: ends its processes
// and removes their records. False for every other job, which it leaves alone.
Result<bool> forget_broken_start(Context& context, const ClusterSpec& cluster,
                                 const std::string& job);

// Pushes it to trainer 0's node, where a damaged one of its name is set aside, and says where the
// job goes on. Returns how many tests the job's metrics have so far.
Result<std::size_t> prepare_to_resume(Context& context, const ClusterSpec& cluster,
                                      const std::vector<std::size_t>& nodes, const JobPlan& plan,
                                      const SnapshotToPush& snapshot);
// Removes the records of ended processes from the nodes, by which a job is found and knows how many
// it had: only when nothing is left to do but to start it.
Status forget_ended_processes(Context& context, const ClusterSpec& cluster,
                              const std::vector<std::size_t>& nodes, const std::string& job);

}  // namespace paddle::cli
