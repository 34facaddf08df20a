#include "engine/group/card_client.h"

#include "engine/math/schedule.h"
#include "engine/snapshot/reader.h"

namespace paddle::strategy {

Status CardClient::pull_averages(std::span<client::DenseParameter> dense,
                                 std::span<client::SparseRows> rows) {
  PADDLE_TRY_STATUS(dense_->pull_averages(dense, {}));
  return tables_->find(rows, CardTable::Reads::kToTest);
}

// The group first checks and counts the batch; its progress then gives the tables' learning rate.
Status CardClient::push(std::uint64_t num_samples, double cost_sum,
                        std::span<client::DenseParameter> dense,
                        std::span<client::SparseRows> sparse) {
  PADDLE_TRY_STATUS(dense_->push(num_samples, cost_sum, dense, {}));
  if (num_samples == 0) return {};
  const client::JobProgress now = dense_->progress();
  return tables_->update(sparse, optim::learning_rate(set_.optimizer(), {now.samples, now.passes}));
}

Result<client::PassTotals> CardClient::end_pass(const Tally& tally, client::PassEnd end) {
  PADDLE_TRY_STATUS(tables_->finish());
  PADDLE_TRY(client::PassTotals totals, dense_->end_pass(tally, end));
  totals.tables = tables_->totals();
  totals.sparse = totals.dense;
  return totals;
}

Status CardClient::load(const std::string& directory) {
  PADDLE_TRY_STATUS(dense_->snapshots().load(directory));
  PADDLE_TRY(const auto reader, snapshot::SnapshotReader::open(directory));
  return tables_->load(reader);
}

Status CardClient::resume(const snapshot::SnapshotReader& snapshot) {
  PADDLE_TRY_STATUS(dense_->snapshots().resume(snapshot));
  return tables_->load(snapshot);
}

Status CardClient::add_to(snapshot::SnapshotWriter& writer, client::SavedRows rows) {
  PADDLE_CHECK(rows != client::SavedRows::kDelta);
  PADDLE_TRY_STATUS(dense_->snapshots().add_to(writer, rows));
  return tables_->save(writer);
}

}  // namespace paddle::strategy
