// The state that the parts of a shard share.
#pragma once

#include "engine/pserver/replies.h"
#include "engine/pserver/shard_parameters.h"

namespace paddle::pserver {

struct ShardState {
  explicit ShardState(ShardOptions given)
      : options(std::move(given)), membership(options.num_gradient_servers) {}
  ShardState(const ShardState&) = delete;
  ShardState& operator=(const ShardState&) = delete;

  const ShardOptions options;
  ShardProgress progress;
  Membership membership;
  ShardParameters parameters{options};
  const Replies replies{options, progress};
};

}  // namespace paddle::pserver
