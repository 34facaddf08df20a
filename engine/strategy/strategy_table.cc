#include "engine/strategy/strategy_table.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "engine/client/shard_client.h"
#include "engine/strategy/async.h"
#include "engine/strategy/geo.h"
#include "engine/strategy/half_async.h"
#include "engine/strategy/local_sgd.h"
#include "engine/strategy/sync.h"

namespace paddle::strategy {
namespace {

using PolicyPtr = std::unique_ptr<pserver::UpdatePolicy>;

PolicyPtr make_async_policy(const wire::ParameterSet& set, bool is_sparse) {
  if (is_sparse || set.has_staleness_max()) return std::make_unique<AsyncUpdates>(set);
  return std::make_unique<DiscardingUpdates>(set);
}

template <class Updates>
PolicyPtr make_policy(const wire::ParameterSet& set, bool /*is_sparse*/) {
  return std::make_unique<Updates>(set);
}

constexpr std::array<Strategy, 5> kStrategies{{
    {"sync", wire::STRATEGY_SYNC, make_policy<SyncUpdates>, nullptr, nullptr},
    {"async", wire::STRATEGY_ASYNC, make_async_policy, nullptr, nullptr},
    {"half_async", wire::STRATEGY_HALF_ASYNC, make_policy<AsyncUpdates>, make_half_async_dense,
     make_half_async_rows},
    {"geo", wire::STRATEGY_GEO, make_policy<GeoUpdates>, make_geo_dense, make_geo_rows, true},
    {"local_sgd", wire::STRATEGY_LOCAL_SGD, make_policy<LocalSgdUpdates>, make_local_sgd_dense,
     make_local_sgd_rows, true},
}};

// The strategy of a valid set.
const Strategy& find(wire::Strategy id) {
  const auto* const found = std::ranges::find(kStrategies, id, &Strategy::id);
  PADDLE_CHECK(found != kStrategies.end());
  return *found;
}

}  // namespace

std::span<const Strategy> strategies() {
  return kStrategies;
}

std::unique_ptr<pserver::UpdatePolicy> make_update_policy(const wire::ParameterSet& set,
                                                          bool is_sparse) {
  return find(is_sparse ? set.sparse_strategy() : set.dense_strategy()).make_policy(set, is_sparse);
}

bool pushes_moves(wire::Strategy strategy) {
  return find(strategy).pushes_moves;
}

bool pushes_dense_straight(const wire::ParameterSet& set) {
  return find(set.dense_strategy()).make_dense == nullptr;
}

std::unique_ptr<client::ParameterClient> make_client(std::unique_ptr<client::ShardChannels> shards,
                                                     const PathOptions& options) {
  const wire::ParameterSet& set = shards->parameters();
  DensePathPtr dense;
  RowsPathPtr rows;
  if (const auto make = find(set.dense_strategy()).make_dense; make && set.dense_shards() > 0) {
    dense = make(*shards, options);
  }
  if (const auto make = find(set.sparse_strategy()).make_rows; make && set.sparse_shards() > 0) {
    rows = make(*shards, options);
  }
  return std::make_unique<client::ShardClient>(std::move(shards), std::move(dense),
                                               std::move(rows));
}

}  // namespace paddle::strategy
