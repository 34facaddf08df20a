// `paddle train`: reads the job, joins the parameter servers (or makes shards of its own) and runs
// the loop.
#pragma once

#include "base/result.h"
#include "engine/trainer/options.h"

namespace paddle::commands {

Status run_train(const trainer::TrainOptions& options);

}  // namespace paddle::commands
