// local_sgd: each trainer updates its own copy of the parameters, and shards average the copies'
// moves in rounds; after a round all trainers have the mean of their copies. With elastic
// averaging, dense moves go towards a center on the shards, and each trainer continues from its own
// copy (replica.h).
#include "engine/strategy/replica.h"
#include "engine/strategy/strategy_table.h"
#include "engine/strategy/sync.h"

namespace paddle::strategy {
namespace {

class LocalSgdUpdates final : public SyncUpdates {
 public:
  using SyncUpdates::SyncUpdates;
  // The moves include the learning rate.
  float learning_rate(const wire::Optimizer&, const optim::Progress&) const override { return 1; }
};

class LocalSgdDense final : public ReplicaDensePath {
 public:
  LocalSgdDense(client::ShardChannels& shards, const PathOptions&)
      : ReplicaDensePath(shards, averaging_scale(shards.parameters()),
                         elastic_alpha(shards.parameters())) {}

 private:
  Status exchange(const client::PushTotals& totals,
                  std::vector<client::DenseParameter> moves) override {
    PADDLE_TRY_STATUS(shards_.push(totals, moves));
    if (shards_.parameters().elastic_rate() > 0) {
      replica_.on_center(moves);
    } else {
      replica_.reset(moves);  // the mean, with the same bits on every trainer
    }
    return {};
  }
};

class LocalSgdRows final : public ReplicaRowsPath {
 public:
  LocalSgdRows(client::ShardChannels& shards, const PathOptions&) : ReplicaRowsPath(shards, 1) {}

 private:
  Status fetch(std::span<client::SparseRows> rows) override { return shards_.pull(rows); }
  Status exchange(const client::PushTotals& totals,
                  std::span<const client::SparseRows> moves) override {
    return shards_.push(totals, moves);
  }
};

}  // namespace

const Strategy kLocalSgd{"local_sgd",
                         wire::STRATEGY_LOCAL_SGD,
                         make_policy<LocalSgdUpdates>,
                         make_path<client::DensePath, LocalSgdDense>,
                         make_path<client::RowsPath, LocalSgdRows>,
                         true};

}  // namespace paddle::strategy
