#include "engine/strategy/local_sgd.h"

#include "engine/strategy/replica_path.h"

namespace paddle::strategy {
namespace {

// A round adds beta times the mean of the trainers' distances to the center, or alpha = beta /
// trainers times their sum.
float elastic_alpha(const wire::ParameterSet& set) {
  return set.elastic_rate() / static_cast<float>(set.num_trainers());
}

float scale_of(const wire::ParameterSet& set) {
  if (set.elastic_rate() == 0) return 1;
  return set.merge() == wire::MERGE_MEAN ? set.elastic_rate() : elastic_alpha(set);
}

class LocalSgdDense final : public ReplicaDensePath {
 public:
  explicit LocalSgdDense(client::ShardChannels& shards)
      : ReplicaDensePath(shards, scale_of(shards.parameters()),
                         elastic_alpha(shards.parameters())) {}

 private:
  Status exchange(const client::PushTotals& totals,
                  std::vector<client::DenseParameter> moves) override {
    PADDLE_TRY_STATUS(shards_.push_dense(totals, moves));
    if (shards_.parameters().elastic_rate() > 0) {
      replica_.on_center(moves);
    } else {
      replica_.reset(moves);  // the mean, to the bit on every trainer
    }
    return {};
  }
};

class LocalSgdRows final : public ReplicaRowsPath {
 public:
  explicit LocalSgdRows(client::ShardChannels& shards) : ReplicaRowsPath(shards, 1) {}

 private:
  Status fetch(std::span<client::SparseRows> rows) override { return shards_.pull_rows(rows); }
  Status exchange(const client::PushTotals& totals,
                  std::span<const client::SparseRows> moves) override {
    return shards_.push_rows(totals, moves);
  }
};

}  // namespace

DensePathPtr make_local_sgd_dense(client::ShardChannels& shards, const PathOptions&) {
  return std::make_unique<LocalSgdDense>(shards);
}

RowsPathPtr make_local_sgd_rows(client::ShardChannels& shards, const PathOptions&) {
  return std::make_unique<LocalSgdRows>(shards);
}

}  // namespace paddle::strategy
