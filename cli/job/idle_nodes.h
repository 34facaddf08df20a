// The nodes of a job that needs fewer than there are: those that run no other job come first.
#pragma once

#include <cstdint>
#include <optional>

#include "cli/cluster/context.h"
#include "cli/nodes/placement.h"

namespace paddle::cli {

// As place_job(). Asks the nodes that it would use what they run, and goes on to others where they
// are busy; a job that uses all nodes asks none. A note says where other nodes were taken.
Result<Placement> place_on_idle_nodes(Context& context, const ClusterSpec& cluster,
                                      std::uint32_t trainers,
                                      std::optional<std::uint32_t> pservers);

}  // namespace paddle::cli
