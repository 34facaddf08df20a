#include "engine/strategy/strategy_table.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "engine/strategy/async.h"
#include "engine/strategy/half_async.h"
#include "engine/strategy/local.h"
#include "engine/strategy/sync.h"

namespace paddle::strategy {
namespace {

using PolicyPtr = std::unique_ptr<pserver::UpdatePolicy>;

// Trainers push moves of their own parameters, with the learning rate applied.
template <class Updates>
class MoveUpdates final : public Updates {
 public:
  using Updates::Updates;
  float learning_rate(const wire::Optimizer&, const optim::Progress&) const override { return 1; }
};

PolicyPtr make_async_policy(const wire::ParameterSet& set, bool is_sparse) {
  if (is_sparse || set.has_staleness_max()) return std::make_unique<AsyncUpdates>(set);
  return std::make_unique<DiscardingUpdates>(set);
}

template <class Updates>
PolicyPtr make_policy(const wire::ParameterSet& set, bool /*is_sparse*/) {
  return std::make_unique<Updates>(set);
}

ClientPtr make_half_async(ClientPtr direct, const ClientOptions& options) {
  const wire::ParameterSet& set = options.set;
  HalfAsyncOptions half_async{
      .communicator = {.max_merge = options.max_merge,
                       .send_queue_size = options.send_queue_size,
                       .merge = set.merge()},
      .dense = set.dense_strategy() == wire::STRATEGY_HALF_ASYNC && set.dense_shards() > 0,
      .sparse = set.sparse_strategy() == wire::STRATEGY_HALF_ASYNC && set.sparse_shards() > 0};
  if (!half_async.dense && !half_async.sparse) return direct;
  for (const wire::ParameterSpec& spec : set.parameters()) {
    if (spec.sparse()) half_async.communicator.notes.emplace_back(spec.table());
  }
  return make_half_async_client(std::move(direct), std::move(half_async));
}

ClientPtr make_local(ClientPtr direct, const ClientOptions& options) {
  return make_local_client(std::move(direct), {options.set});
}

constexpr std::array<Strategy, 5> kStrategies{{
    {"sync", wire::STRATEGY_SYNC, make_policy<SyncUpdates>, nullptr},
    {"async", wire::STRATEGY_ASYNC, make_async_policy, nullptr},
    {"half_async", wire::STRATEGY_HALF_ASYNC, make_policy<AsyncUpdates>, make_half_async},
    {"geo", wire::STRATEGY_GEO, make_policy<MoveUpdates<AsyncUpdates>>, make_local},
    {"local_sgd", wire::STRATEGY_LOCAL_SGD, make_policy<MoveUpdates<SyncUpdates>>, make_local},
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

ClientPtr make_client(ClientPtr direct, const ClientOptions& options) {
  const ClientFactory dense = find(options.set.dense_strategy()).make_client;
  const ClientFactory sparse = find(options.set.sparse_strategy()).make_client;
  if (dense != nullptr) direct = dense(std::move(direct), options);
  if (sparse != nullptr && sparse != dense) direct = sparse(std::move(direct), options);
  return direct;
}

}  // namespace paddle::strategy
