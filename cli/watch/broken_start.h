// The start of a job that was broken off: paddlectl ended before it had started all processes.
// Whatever is left of a job that lost the node of a process for good looks alike.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"

namespace paddle::cli {

struct BrokenStart {
  std::vector<std::string> running, missing;  // processes; `missing` were never started
  std::uint32_t trainers = 0, pservers = 0;   // of the whole job
  bool is_first_start = true;                 // of every process
  bool has_trained = false;                   // as its files tell: a node was lost since
};

// Nothing for a job that is complete, has trained, or is being started by a paddlectl: one that
// lives holds the job's claim. Only two looks in a row are a proof, since claims are released on
// one node after the other. Nothing either unless the session sees the whole cluster.
std::optional<BrokenStart> broken_start(const ClusterSession& session,
                                        const std::vector<ProcessOnNode>& processes);
// Looks twice, and then at the files of the job, which tell whether it has trained.
std::optional<BrokenStart> find_broken_start(Context& context, ClusterSession& session,
                                             const std::string& job);

// Whether the job has trained, as its files on the nodes tell.
bool has_trained(ClusterSession& session, const std::string& job);
// Whether a process has made a batch, or reached the end of the job.
bool has_worked(const remote::ProcessStatus& status);

// "the start of job was broken off: trainer-0 was never started; pserver-0 runs"; after the first
// start, or where the job has trained, "job is incomplete: no node has trainer-0; pserver-0 runs".
std::string describe(const BrokenStart& broken, const std::string& job);

}  // namespace paddle::cli
