// The flags of `paddle train`, which `paddle plan` takes too.
#pragma once

#include <optional>
#include <string>

#include "engine/commands/flags.h"
#include "engine/trainer/connection.h"

namespace paddle::commands {

struct TrainFlags {
  void declare(FlagSet& flags);
  // The options, with the flags that are another spelling of a key in job.toml as overrides of it.
  trainer::TrainOptions resolve() const;

  trainer::TrainOptions options;
  std::string num_passes, log_period, seed, trainer_count;
  std::string rank_from;
  std::optional<bool> use_gpu;  // none: as train.device says
};

}  // namespace paddle::commands
