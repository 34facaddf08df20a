// `paddle train`: reads the job, joins the parameter servers (or makes shards of its own) and runs
// the loop.
#pragma once

#include "base/result.h"
#include "engine/trainer/options.h"

namespace paddle::trainer {

Status run_train(const TrainOptions& options);

}  // namespace paddle::trainer
