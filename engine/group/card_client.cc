#include "engine/group/card_client.h"

#include "engine/math/schedule.h"
#include "engine/snapshot/reader.h"

namespace paddle::strategy {

Status CardClient::pull_averages(std::span<client::DenseParameter> dense,
                                 std::span<client::SparseRows> rows) {
  PADDLE_TRY_STATUS(dense_->pull_averages(dense, {}));
  return tables_->find(rows, CardTable::Reads::kToTest);
}

// push() counts the batch.
Status CardClient::begin_push(std::uint64_t num_samples, std::span<client::SparseRows> sparse) {
  PADDLE_TRY_STATUS(dense_->begin_push(num_samples, {}));
  has_begun_push_ = true;
  if (num_samples == 0) return {};
  const client::JobProgress before = dense_->progress();
  return tables_->update(
      sparse,
      optim::learning_rate(set_.optimizer(), {before.samples + num_samples, before.passes}));
}

Status CardClient::push(std::uint64_t num_samples, double cost_sum,
                        std::span<client::DenseParameter> dense,
                        std::span<client::SparseRows> sparse) {
  if (!has_begun_push_) PADDLE_TRY_STATUS(begin_push(num_samples, sparse));
  has_begun_push_ = false;
  return dense_->push(num_samples, cost_sum, dense, {});
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
