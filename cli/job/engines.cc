#include "cli/job/engines.h"

#include <unistd.h>

#include <algorithm>

#include "cli/job/engine_program.h"

namespace paddle::cli {
namespace {

std::string gpu_engine_path(const Context& context) {
  return context.engine + "-gpu";
}

}  // namespace

std::vector<remote::PushItem> JobEngines::on_node(const JobPlan& plan, std::size_t node) const {
  std::vector<remote::PushItem> items{engine};
  const bool needs_gpu_engine =
      gpu_engine && std::ranges::any_of(plan.trainers, [&](const PlannedProcess& trainer) {
        return trainer.node == node && trainer.spec.program == gpu_engine->remote_path;
      });
  if (needs_gpu_engine) items.push_back(*gpu_engine);
  return items;
}

bool trains_on_gpus(const Placement& placement, const Workspace& workspace) {
  return !placement.gpus.empty() && workspace.command.empty();
}

Status check_gpu_engine(const Context& context) {
  if (::access(gpu_engine_path(context).c_str(), X_OK) == 0) return {};
  return Error{Errc::kUsage, "--gpus needs paddle-gpu beside paddlectl; paddle trains on CPUs only",
               "leave --gpus out to train on CPUs, or build paddlectl where the CUDA Toolkit is "
               "installed, which adds paddle-gpu"};
}

Status check_gpu_engine(const Context& context, const Placement& placement) {
  PADDLE_TRY_STATUS(check_gpu_engine(context));
  for (const NodeGpus& node : placement.gpus) {
    if (!node.places.empty()) PADDLE_TRY_STATUS(node.libc_status);
  }
  return {};
}

Result<JobEngines> engines_of(const Context& context, const Placement& placement,
                              const Workspace& workspace) {
  JobEngines engines;
  PADDLE_TRY(engines.engine, engine_item(context.engine));
  PADDLE_TRY_STATUS(check_engine_version(context.engine));
  if (!trains_on_gpus(placement, workspace)) return engines;
  PADDLE_TRY_STATUS(check_gpu_engine(context));
  PADDLE_TRY(engines.gpu_engine, engine_item(gpu_engine_path(context)));
  PADDLE_TRY_STATUS(check_engine_version(gpu_engine_path(context)));
  return engines;
}

}  // namespace paddle::cli
