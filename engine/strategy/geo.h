// geo: trainers update copies of their own; shards add up the copies' moves, each divided by the
// number of trainers (merge = mean) or whole (sum). A thread pushes the moves while training
// continues, and with one trainer the bits do not depend on time.
#pragma once

#include "engine/strategy/async.h"
#include "engine/strategy/path_options.h"

namespace paddle::strategy {

class GeoUpdates final : public AsyncUpdates {
 public:
  using AsyncUpdates::AsyncUpdates;
  // The learning rate is in the moves.
  float learning_rate(const wire::Optimizer&, const optim::Progress&) const override { return 1; }
};

DensePathPtr make_geo_dense(client::ShardChannels& shards, const PathOptions& options);
RowsPathPtr make_geo_rows(client::ShardChannels& shards, const PathOptions& options);

}  // namespace paddle::strategy
