// The table of strategies by which trainers and shards exchange parameters, each with its half on a
// shard and its half on a trainer.
#pragma once

#include <span>
#include <string_view>

#include "engine/client/parameter_client.h"
#include "engine/pserver/update_policy.h"
#include "engine/strategy/path_options.h"

namespace paddle::strategy {

struct Strategy {
  std::string_view name;  // in job.toml
  wire::Strategy id;
  pserver::UpdatePolicyFactory make_policy;
  // Null: a push goes straight to the shards and is answered before the next batch.
  DensePathPtr (*make_dense)(client::ShardChannels& shards, const PathOptions& options);
  RowsPathPtr (*make_rows)(client::ShardChannels& shards, const PathOptions& options);
  bool pushes_moves = false;  // of a trainer's own copy, with the learning rate in them
};

std::span<const Strategy> strategies();

// The shard's half, by the strategy that the set has for dense or for sparse parameters.
std::unique_ptr<pserver::UpdatePolicy> make_update_policy(const wire::ParameterSet& set,
                                                          bool is_sparse);
bool pushes_moves(wire::Strategy strategy);
// Whether dense values change only within the trainer's own calls to push.
bool pushes_dense_straight(const wire::ParameterSet& set);
// The trainer's half, for dense and sparse parameters together.
std::unique_ptr<client::ParameterClient> make_client(std::unique_ptr<client::ShardChannels> shards,
                                                     const PathOptions& options);

}  // namespace paddle::strategy
