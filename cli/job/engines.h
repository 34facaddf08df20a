// The engines of a job: `paddle`, and `paddle-gpu` if each of its trainers has a GPU.
#pragma once

#include <optional>

#include "cli/cluster/context.h"
#include "cli/cluster/placement.h"
#include "cli/job/plan.h"
#include "cli/job/workspace.h"
#include "remote/client/agent_client.h"

namespace paddle::cli {

struct JobEngines {
  remote::PushItem engine;
  std::optional<remote::PushItem> gpu_engine;

  // The engines that processes of the plan on this node run, and that their programs may start.
  std::vector<remote::PushItem> on_node(const JobPlan& plan, std::size_t node) const;
};

// Whether trainers are the built-in ones, one for each GPU.
bool trains_on_gpus(const Placement& placement, const Workspace& workspace);
// kUsage: this paddlectl was installed without `paddle-gpu`.
Status check_gpu_engine(const Context& context);
// check_gpu_engine(context), and kResource: `paddle-gpu` cannot start on one of the nodes.
Status check_gpu_engine(const Context& context, const Placement& placement);
// kUsage: an engine is missing. kVersion: an engine is of another release.
Result<JobEngines> engines_of(const Context& context, const Placement& placement,
                              const Workspace& workspace);

}  // namespace paddle::cli
