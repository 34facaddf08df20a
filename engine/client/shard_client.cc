#include "engine/client/shard_client.h"

namespace paddle::client {

Status ShardClient::settle() {
  if (rows_) PADDLE_TRY_STATUS(rows_->settle());
  return dense_ ? dense_->settle() : Status();
}

Status ShardClient::pull_dense(std::span<DenseParameter> parameters) {
  PADDLE_TRY_STATUS(settle());
  return dense_ ? dense_->pull(parameters) : shards_->pull(parameters);
}

Status ShardClient::pull_rows(std::span<SparseRows> rows) {
  return rows_ ? rows_->pull(rows) : shards_->pull(rows);
}

Status ShardClient::pull_averages(std::span<DenseParameter> dense, std::span<SparseRows> rows) {
  PADDLE_TRY_STATUS(settle());
  return shards_->pull_averages(dense, rows);
}

Status ShardClient::push(std::uint64_t num_samples, double cost_sum,
                         std::span<DenseParameter> dense, std::span<SparseRows> sparse) {
  const PushTotals totals{1, num_samples, cost_sum};
  if (!dense_ && !rows_) return shards_->push(totals, dense, sparse);
  // Straight pushes come last: they may wait for other trainers.
  if (rows_) PADDLE_TRY_STATUS(rows_->push(totals, sparse));
  PADDLE_TRY_STATUS(dense_ ? dense_->push(totals, dense) : shards_->push(totals, dense));
  return rows_ ? Status() : shards_->push(totals, sparse);
}

Result<PassTotals> ShardClient::end_pass(const Tally& tally, PassEnd end) {
  if (rows_) PADDLE_TRY_STATUS(rows_->end_pass(end));
  if (dense_) PADDLE_TRY_STATUS(dense_->end_pass(end));
  return shards_->end_pass(tally, end == PassEnd::kPause);
}

Status ShardClient::announce_busy() {
  PADDLE_TRY_STATUS(settle());
  return shards_->ask_all(FrameType::kBusy, wire::Busy(), FrameType::kDone);
}

Status ShardClient::leave() {
  PADDLE_TRY_STATUS(settle());
  return shards_->leave();
}

}  // namespace paddle::client
