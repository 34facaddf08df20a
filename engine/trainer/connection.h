// A trainer's lanes to the shards: over TCP, or to shards in this process.
#pragma once

#include <memory>

#include "base/pool.h"
#include "engine/client/parameter_client.h"
#include "engine/config/job_config.h"
#include "engine/trainer/options.h"

namespace paddle::trainer {

// Everything about the job that all trainers and shards must agree on.
wire::ParameterSet parameter_set(const config::JobConfig& job,
                                 const std::vector<wire::ParameterSpec>& parameters,
                                 const TrainOptions& options);

// Joins all shards; errors name the pserver that cannot be reached. The client follows the job's
// strategies. Pushes use two threads of the team where it has them.
Result<std::unique_ptr<client::ParameterClient>> join_shards(const config::JobConfig& job,
                                                             const wire::ParameterSet& parameters,
                                                             const TrainOptions& options,
                                                             ThreadTeam& team);

}  // namespace paddle::trainer
