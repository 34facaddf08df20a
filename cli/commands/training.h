// The options of `train`, and the start of a job without following it, for commands that start jobs
// on their own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/cluster/cluster_file.h"
#include "cli/cluster/placement.h"
#include "cli/commands/command.h"
#include "cli/commands/shared_options.h"
#include "cli/job/check.h"
#include "cli/job/settings.h"
#include "cli/job/workspace.h"
#include "engine/config/job_config.h"

namespace paddle::cli {

// A job to place on a cluster.
struct PlanOptions {
  NodeTarget target;
  JobSource source;
  std::uint32_t trainers = 0;             // 0: the total capacity of the nodes with the role
  std::optional<std::uint32_t> pservers;  // nothing: one on each node with the role
  std::string gpus;                       // "": trainers get no GPUs assigned
};

struct TrainOptions {
  PlanOptions plan;
  std::string job;  // --name; "": a new name
  ResultsOptions results;
  std::vector<std::string> environment;
  std::string environment_file;
  std::optional<std::uint32_t> restarts;
  std::optional<std::uint32_t> stall_restarts_after;
  bool dry_run = false;
  std::string from;
  std::vector<std::string> tags;
  std::string note;
  bool prepare = false;
  bool resume = false;
  bool may_begin_anew = false;  // with `resume`: a job without a snapshot begins anew
  bool detach = false;
};

OptionList train_options(TrainOptions& options);

struct CheckedTraining {
  config::ResolvedJob job;
  ClusterSpec cluster;              // with roles on the chosen nodes only
  std::vector<std::size_t> chosen;  // nodes of --on
  Placement placement;
  Workspace workspace;
  JobSettings settings;  // with which it would be started, without `data`
};
// Checks what `train` checks before it asks a node, and prints nothing but notes. Errors are those
// of `train`. With --gpus the nodes are asked for their GPUs, unless the placement is `known`.
Result<CheckedTraining> check_training(Context& context, const TrainOptions& options,
                                       const Placement* known = nullptr);

// Starts the job as `train --detach` does, and returns its name.
Result<std::string> start_training(Context& context, const TrainOptions& typed);

}  // namespace paddle::cli
