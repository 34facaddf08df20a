// The flags of `paddle train`, which `paddle plan` takes too, and `paddle client` in part.
#pragma once

#include <optional>
#include <string>

#include "engine/commands/flags.h"
#include "engine/trainer/connection.h"

namespace paddle::commands {

// The flags of every process that is a trainer of a job: its place in the job, the pservers, the
// snapshots, and the session.
void declare_trainer(FlagSet& flags, trainer::TrainOptions& options);

struct TrainFlags {
  void declare(FlagSet& flags);
  // The options. Flags that are another spelling of a key in job.toml become overrides of that key.
  trainer::TrainOptions resolve() const;

  trainer::TrainOptions options;
  std::string num_passes, log_period, seed, trainer_count;
  std::string rank_from;
  std::optional<bool> use_gpu;  // empty: as train.device says
};

}  // namespace paddle::commands
