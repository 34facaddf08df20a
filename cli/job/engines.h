// The engines of a job: `paddle`, and `paddle-gpu` where its trainers have a GPU each.
#pragma once

#include <optional>

#include "cli/cluster/context.h"
#include "cli/job/plan.h"
#include "cli/nodes/placement.h"
#include "cli/workspace/workspace.h"
#include "remote/agent_client.h"

namespace paddle::cli {

struct JobEngines {
  remote::PushItem engine;
  std::optional<remote::PushItem> gpu_engine;

  // Those that processes of the plan on this node are, and that their programs may start.
  std::vector<remote::PushItem> on_node(const JobPlan& plan, std::size_t node) const;
};

// Whether the built-in trainer runs, once for each GPU.
bool trains_on_gpus(const Placement& placement, const Workspace& workspace);
// kUsage where this paddlectl came without `paddle-gpu`.
Status check_gpu_engine(const Context& context);
// The same, and kResource where `paddle-gpu` cannot start on one of the nodes.
Status check_gpu_engine(const Context& context, const Placement& placement);
// kUsage for one that is not there; kVersion for one of another release.
Result<JobEngines> engines_of(const Context& context, const Placement& placement,
                              const Workspace& workspace);

}  // namespace paddle::cli
