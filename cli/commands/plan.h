// `paddlectl plan`, which `train --dry-run` runs too.
#pragma once

#include <cstdint>
#include <string>

#include "cli/job/check.h"
#include "cli/options/command.h"

namespace paddle::cli {

// A job to place on a cluster.
struct PlanOptions {
  std::string cluster;
  JobSource source;
  std::uint32_t trainers = 0;  // 0: as many as the capacity of the nodes with the role
  std::uint32_t pservers = 0;  // 0: one on each node with the role
};
OptionList plan_options(PlanOptions& options);

Status run_plan(Context& context, const PlanOptions& options);

}  // namespace paddle::cli
