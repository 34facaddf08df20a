// The table of the strategies by which trainers and shards exchange parameters. Each has a half on
// a shard and a half on a trainer.
#pragma once

#include <span>
#include <string_view>

#include "engine/client/shard_client.h"
#include "engine/pserver/update_policy.h"

namespace paddle::strategy {

struct PathOptions {
  std::uint32_t max_merge = 1;        // half_async: batches of a push
  std::uint32_t send_queue_size = 1;  // half_async: pushes in flight while training continues
};

struct Strategy {
  std::string_view name;  // in job.toml
  wire::Strategy id;
  pserver::UpdatePolicyFactory make_policy;
  // Null: a push is sent directly to the shards and is answered before the next batch.
  std::unique_ptr<client::DensePath> (*make_dense)(client::ShardChannels&, const PathOptions&);
  std::unique_ptr<client::RowsPath> (*make_rows)(client::ShardChannels&, const PathOptions&);
  // Whether a push carries moves of a trainer's own copy, which include the learning rate.
  bool pushes_moves = false;
};

// Each strategy is defined in the source of its name.
extern const Strategy kSync, kAsync, kHalfAsync, kGeo, kLocalSgd, kCollective;

// Factories for a Strategy.
template <class Updates>
std::unique_ptr<pserver::UpdatePolicy> make_policy(const wire::ParameterSet& set, bool) {
  return std::make_unique<Updates>(set);
}
template <class Path, class Made>
std::unique_ptr<Path> make_path(client::ShardChannels& shards, const PathOptions& options) {
  return std::make_unique<Made>(shards, options);
}

std::span<const Strategy* const> strategies();

// The shard's half of the strategy that the set has for its dense or its sparse parameters.
std::unique_ptr<pserver::UpdatePolicy> make_update_policy(const wire::ParameterSet& set,
                                                          bool is_sparse);
bool pushes_moves(wire::Strategy strategy);
// Whether this kind of parameters has ports and is pushed in rounds.
bool has_rounds(const wire::ParameterSet& set, bool is_sparse);
// Whether a lost trainer may be restarted and continue: what it trains is on the shards, or its
// loss does no harm.
bool trainers_return(const wire::ParameterSet& set);
// Whether dense values change only within the trainer's own calls to push.
bool pushes_dense_straight(const wire::ParameterSet& set);
// The trainer's half, for dense and sparse parameters together. `dense`, if not null, is used
// instead of the strategy's own path.
std::unique_ptr<client::ShardClient> make_client(
    std::unique_ptr<client::ShardChannels> shards, const PathOptions& options,
    std::unique_ptr<client::DensePath> dense = nullptr);

}  // namespace paddle::strategy
