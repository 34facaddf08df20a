// How many processes a job has, counted from those that were seen on the nodes reached.
#pragma once

#include <cstddef>
#include <vector>

#include "cli/cluster/cluster_session.h"

namespace paddle::cli {

struct JobSize {
  std::size_t trainers = 0, pservers = 0;
  bool all_seen = false;  // no node that was not reached has a process of the job
};
// Each process tells how many others there are.
JobSize size_of_job(const std::vector<ProcessOnNode>& processes);

}  // namespace paddle::cli
