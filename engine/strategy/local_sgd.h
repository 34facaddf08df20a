// local_sgd: trainers update copies of their own, whose moves shards average in rounds; after a
// round all trainers hold the mean of their copies. With elastic averaging, dense moves go towards
// a center on the shards and each trainer continues from its own copy (replica.h).
#pragma once

#include "engine/strategy/path_options.h"
#include "engine/strategy/sync.h"

namespace paddle::strategy {

class LocalSgdUpdates final : public SyncUpdates {
 public:
  using SyncUpdates::SyncUpdates;
  // The learning rate is in the moves.
  float learning_rate(const wire::Optimizer&, const optim::Progress&) const override { return 1; }
};

DensePathPtr make_local_sgd_dense(client::ShardChannels& shards, const PathOptions& options);
RowsPathPtr make_local_sgd_rows(client::ShardChannels& shards, const PathOptions& options);

}  // namespace paddle::strategy
