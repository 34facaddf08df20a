// geo: each trainer updates its own copy of the parameters. Shards add up the copies' moves, each
// divided by the number of trainers (merge = mean) or whole (sum). A thread pushes the moves while
// training continues; with one trainer the bits do not depend on time.
#include "base/check.h"
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

optim::Progress begun_of(const client::ShardChannels& shards) {
  const client::JobProgress begun = shards.progress();
  return {begun.samples, begun.passes};
}

class GeoDense final : public client::DensePath {
 public:
  GeoDense(client::ShardChannels& shards, const PathOptions&)
      : Path(shards),
        replica_(shards.parameters(), scale_of(shards.parameters())),
        window_(shards.parameters()),
        sender_({}, push_dense_through(shards)) {}

  Status pull(std::span<client::DenseParameter> parameters) override;
  Status push(const client::PushTotals& totals,
              std::span<client::DenseParameter> parameters) override;
  Status settle() override;
  Status end_pass(client::PassEnd end) override;

 private:
  Status push_window();

  DenseReplica replica_;
  ReplicaWindow window_;
  Sender sender_;
};

// Rows are fetched when a batch needs them for the first time after a push, and only such rows are
// pushed.
class GeoRows final : public client::RowsPath {
 public:
  GeoRows(client::ShardChannels& shards, const PathOptions&);

  Status pull(std::span<client::SparseRows> rows) override;
  Status push(const client::PushTotals& totals, std::span<client::SparseRows> rows) override;
  Status settle() override { return sender_.flush(nullptr); }
  Status end_pass(client::PassEnd end) override;

 private:
  Status push_window();

  std::vector<RowReplica> tables_;
  ReplicaWindow window_;
  Sender sender_;
};

Status GeoDense::pull(std::span<client::DenseParameter> parameters) {
  if (!replica_.is_empty()) {
    replica_.copy_to(parameters);
    return {};
  }
  PADDLE_TRY_STATUS(shards_.pull(parameters));
  replica_.reset(parameters);
  return {};
}

Status GeoDense::push(const client::PushTotals& totals,
                      std::span<client::DenseParameter> parameters) {
  const float rate = window_.add(totals, begun_of(shards_));
  if (totals.samples > 0) replica_.update(rate, parameters);  // else the batch was left out
  if (!window_.is_full()) return {};
  PADDLE_TRY_STATUS(push_window());
  replica_.copy_to(parameters);
  return {};
}

Status GeoDense::push_window() {
  std::vector<client::DenseParameter> values;
  PADDLE_TRY_STATUS(sender_.add(window_.take(), replica_.take_moves(), {}, false, &values));
  if (!values.empty()) replica_.on_values(values, 1);
  return {};
}

Status GeoDense::settle() {
  std::vector<client::DenseParameter> values;
  PADDLE_TRY_STATUS(sender_.flush(&values));
  if (!values.empty()) replica_.on_values(values, 0);
  return {};
}

Status GeoDense::end_pass(client::PassEnd end) {
  if (!window_.is_empty()) PADDLE_TRY_STATUS(push_window());
  window_.end_pass(end);
  return settle();
}

GeoRows::GeoRows(client::ShardChannels& shards, const PathOptions&)
    : Path(shards), window_(shards.parameters()), sender_({}, push_rows_through(shards)) {
  const wire::ParameterSet& set = shards.parameters();
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(set.parameters_size()); ++i) {
    if (set.parameters(static_cast<int>(i)).sparse()) tables_.emplace_back(set, i, scale_of(set));
  }
}

Status GeoRows::pull(std::span<client::SparseRows> rows) {
  PADDLE_CHECK(rows.size() == tables_.size());
  std::vector<client::SparseRows> missing(rows.size());
  bool is_any = false;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    missing[i].parameter = rows[i].parameter;
    missing[i].ids = tables_[i].missing(rows[i].ids);
    is_any = is_any || !missing[i].ids.empty();
  }
  if (is_any) PADDLE_TRY_STATUS(sender_.ask([&] { return shards_.pull(missing); }));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (is_any) tables_[i].put(missing[i]);
    tables_[i].read(rows[i]);
  }
  return {};
}

Status GeoRows::push(const client::PushTotals& totals, std::span<client::SparseRows> rows) {
  const float rate = window_.add(totals, begun_of(shards_));
  for (std::size_t i = 0; i < rows.size() && totals.samples > 0; ++i)
    tables_[i].update(rate, rows[i]);
  return window_.is_full() ? push_window() : Status();
}

Status GeoRows::push_window() {
  std::vector<client::SparseRows> moves;
  for (RowReplica& table : tables_) moves.push_back(table.take_moves());
  return sender_.add(window_.take(), {}, moves, true, nullptr);
}

Status GeoRows::end_pass(client::PassEnd end) {
  if (!window_.is_empty()) PADDLE_TRY_STATUS(push_window());
  window_.end_pass(end);
  return settle();
}

}  // namespace

const Strategy kGeo{"geo",
                    wire::STRATEGY_GEO,
                    make_policy<GeoUpdates>,
                    make_path<client::DensePath, GeoDense>,
                    make_path<client::RowsPath, GeoRows>,
                    true};

}  // namespace paddle::strategy
