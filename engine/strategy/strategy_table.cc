#include "engine/strategy/strategy_table.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace paddle::strategy {
namespace {

constexpr std::array kStrategies{&kSync, &kAsync, &kHalfAsync, &kGeo, &kLocalSgd, &kCollective};

// The strategy with this id, of a valid set.
const Strategy& find(wire::Strategy id) {
  const auto* const found = std::ranges::find(kStrategies, id, &Strategy::id);
  PADDLE_CHECK(found != kStrategies.end());
  return **found;
}

}  // namespace

std::span<const Strategy* const> strategies() {
  return kStrategies;
}

std::unique_ptr<pserver::UpdatePolicy> make_update_policy(const wire::ParameterSet& set,
                                                          bool is_sparse) {
  return find(is_sparse ? set.sparse_strategy() : set.dense_strategy()).make_policy(set, is_sparse);
}

bool pushes_moves(wire::Strategy strategy) {
  return find(strategy).pushes_moves;
}

bool has_rounds(const wire::ParameterSet& set, bool is_sparse) {
  const bool has_ports = (is_sparse ? set.sparse_shards() : set.dense_shards()) > 0;
  return has_ports && make_update_policy(set, is_sparse)->has_rounds();
}

// The trainers of a node push together, so a lost one cannot return alone. The ranks of a group go
// back to a savepoint, which contains neither tables nor a rank's own copy.
bool trainers_return(const wire::ParameterSet& set) {
  if (set.node_groups() || set.dense_strategy() == wire::STRATEGY_LOCAL_SGD) return false;
  return set.dense_strategy() != wire::STRATEGY_COLLECTIVE ||
         (set.num_trainers() > 1 &&
          std::ranges::none_of(set.parameters(), &wire::ParameterSpec::sparse));
}

bool pushes_dense_straight(const wire::ParameterSet& set) {
  return find(set.dense_strategy()).make_dense == nullptr;
}

std::unique_ptr<client::ShardClient> make_client(std::unique_ptr<client::ShardChannels> shards,
                                                 const PathOptions& options,
                                                 std::unique_ptr<client::DensePath> dense) {
  const wire::ParameterSet& set = shards->parameters();
  std::unique_ptr<client::RowsPath> rows;
  if (const auto make = find(set.dense_strategy()).make_dense;
      !dense && make && set.dense_shards() > 0) {
    dense = make(*shards, options);
  }
  if (const auto make = find(set.sparse_strategy()).make_rows; make && set.sparse_shards() > 0) {
    rows = make(*shards, options);
  }
  return std::make_unique<client::ShardClient>(std::move(shards), std::move(dense),
                                               std::move(rows));
}

}  // namespace paddle::strategy
