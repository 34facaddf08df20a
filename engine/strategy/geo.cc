// geo: each trainer updates its own copy of the parameters. Shards add up the copies' moves, each
// divided by the number of trainers (merge = mean) or whole (sum). A thread pushes the moves while
// training continues; with one trainer the bits do not depend on time.
#include "engine/strategy/async.h"
#include "engine/strategy/replica.h"
#include "engine/strategy/sender.h"
#include "engine/strategy/strategy_table.h"

namespace paddle::strategy {
namespace {

class GeoUpdates final : public AsyncUpdates {
 public:
  using AsyncUpdates::AsyncUpdates;
  // The moves include the learning rate.
  float learning_rate(const wire::Optimizer&, const optim::Progress&) const override { return 1; }
};

float scale_of(const wire::ParameterSet& set) {
  return set.merge() == wire::MERGE_MEAN ? 1.0F / static_cast<float>(set.num_trainers()) : 1.0F;
}

class GeoDense final : public ReplicaDensePath {
 public:
  GeoDense(client::ShardChannels& shards, const PathOptions&)
      : ReplicaDensePath(shards, scale_of(shards.parameters())),
        sender_({}, push_dense_through(shards)) {}

  Status settle() override {
    std::vector<client::DenseParameter> values;
    PADDLE_TRY_STATUS(sender_.flush(&values));
    if (!values.empty()) replica_.on_values(values, 0);
    return {};
  }

 private:
  Status exchange(const client::PushTotals& totals,
                  std::vector<client::DenseParameter> moves) override {
    std::vector<client::DenseParameter> values;
    PADDLE_TRY_STATUS(sender_.add(totals, moves, {}, false, &values));
    if (!values.empty()) replica_.on_values(values, 1);
    return {};
  }

  Sender sender_;
};

class GeoRows final : public ReplicaRowsPath {
 public:
  GeoRows(client::ShardChannels& shards, const PathOptions&)
      : ReplicaRowsPath(shards, scale_of(shards.parameters())),
        sender_({}, push_rows_through(shards)) {}

  Status settle() override { return sender_.flush(nullptr); }

 private:
  Status fetch(std::span<client::SparseRows> rows) override {
    return sender_.ask([&] { return shards_.pull(rows); });
  }
  Status exchange(const client::PushTotals& totals,
                  std::span<const client::SparseRows> moves) override {
    return sender_.add(totals, {}, moves, true, nullptr);
  }

  Sender sender_;
};

}  // namespace

const Strategy kGeo{"geo",
                    wire::STRATEGY_GEO,
                    make_policy<GeoUpdates>,
                    make_path<client::DensePath, GeoDense>,
                    make_path<client::RowsPath, GeoRows>,
                    true};

}  // namespace paddle::strategy
