#include "engine/strategy/geo.h"

#include "engine/strategy/replica_path.h"
#include "engine/strategy/sender.h"

namespace paddle::strategy {
namespace {

float scale_of(const wire::ParameterSet& set) {
  return set.merge() == wire::MERGE_MEAN ? 1.0F / static_cast<float>(set.num_trainers()) : 1.0F;
}

class GeoDense final : public ReplicaDensePath {
 public:
  explicit GeoDense(client::ShardChannels& shards)
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
  explicit GeoRows(client::ShardChannels& shards)
      : ReplicaRowsPath(shards, scale_of(shards.parameters())),
        sender_({}, push_rows_through(shards)) {}

  Status settle() override { return sender_.flush(nullptr); }

 private:
  Status fetch(std::span<client::SparseRows> rows) override {
    return sender_.ask([&] { return shards_.pull_rows(rows); });
  }
  Status exchange(const client::PushTotals& totals,
                  std::span<const client::SparseRows> moves) override {
    return sender_.add(totals, {}, moves, true, nullptr);
  }

  Sender sender_;
};

}  // namespace

DensePathPtr make_geo_dense(client::ShardChannels& shards, const PathOptions&) {
  return std::make_unique<GeoDense>(shards);
}

RowsPathPtr make_geo_rows(client::ShardChannels& shards, const PathOptions&) {
  return std::make_unique<GeoRows>(shards);
}

}  // namespace paddle::strategy
