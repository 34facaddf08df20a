#include "engine/client/shard_client.h"

#include <atomic>
#include <thread>

#include "base/log.h"

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

Status ShardClient::ready() {
  PADDLE_TRY_STATUS(shards_->ready());
  is_behind_ = shards_->is_behind();
  return {};
}

Status ShardClient::push(std::uint64_t num_samples, double cost_sum,
                         std::span<DenseParameter> dense, std::span<SparseRows> sparse) {
  const PushTotals totals{1, num_samples, cost_sum};
  if (!dense_ && !rows_) {
    Status pushed = shards_->push(totals, dense, sparse);
    is_behind_ = shards_->is_behind();
    return pushed;
  }
  // Straight pushes come last: they may wait for other trainers.
  if (rows_) PADDLE_TRY_STATUS(rows_->push(totals, sparse));
  PADDLE_TRY_STATUS(dense_ ? dense_->push(totals, dense) : shards_->push(totals, dense));
  if (!rows_) PADDLE_TRY_STATUS(shards_->push(totals, sparse));
  if (!is_behind_) return {};
  // A batch that is merged with others could not be left out on one lane.
  PADDLE_TRY_STATUS(push_paths(PassEnd::kPause));
  is_behind_ = shards_->is_behind();
  return {};
}

Status ShardClient::repeat_push(std::uint64_t batch, std::uint64_t num_samples, double cost_sum,
                                std::span<DenseParameter> dense, std::span<SparseRows> sparse) {
  if (dense_ && rows_) return {};
  const JobProgress now = shards_->progress();
  PADDLE_TRY_STATUS(shards_->repeat_push(
      {now.passes, now.pauses, batch}, {1, num_samples, cost_sum},
      dense_ ? std::nullopt : std::optional(dense),
      rows_ ? std::nullopt : std::optional(std::span<const SparseRows>(sparse))));
  is_behind_ = shards_->is_behind();
  return {};
}

Status ShardClient::push_paths(PassEnd end) {
  if (rows_) PADDLE_TRY_STATUS(rows_->end_pass(end));
  return dense_ ? dense_->end_pass(end) : Status();
}

Status ShardClient::take_part(const std::function<Status()>& await) {
  if (!dense_ || !dense_->talks_to_trainers()) return await();
  std::atomic<bool> has_lost_trainer = false;
  Status took_part;
  std::thread beside([&] {
    took_part = dense_->take_part();
    if (took_part) return;
    has_lost_trainer = true;
    shards_->interrupt(took_part.error());
  });
  Status answered = await();
  if (!answered && !has_lost_trainer) dense_->interrupt(answered.error());
  beside.join();
  return answered || has_lost_trainer ? took_part : answered;
}

Result<PassTotals> ShardClient::end_pass(const Tally& tally, PassEnd end) {
  PADDLE_TRY_STATUS(push_paths(end));
  auto totals = shards_->end_pass(tally, end == PassEnd::kPause,
                                  [this](const auto& await) { return take_part(await); });
  is_behind_ = shards_->is_behind();
  return totals;
}

Status ShardClient::announce_busy(std::string_view activity) {
  PADDLE_TRY_STATUS(settle());
  if (dense_) dense_->announce_busy(activity);
  return shards_->ask_all(FrameType::kBusy, wire::Busy(), FrameType::kDone);
}

void ShardClient::interrupt(const Error& why) {
  shards_->interrupt(why);  // abandon() may wait for a path's thread that waits for a port
  const std::scoped_lock lock(ending_);
  if (dense_) dense_->interrupt(why);
}

void ShardClient::abandon(const Error& why) {
  {
    const std::scoped_lock lock(ending_);
    if (dense_) dense_->interrupt(why);
    // Their threads use the lanes.
    dense_.reset();
    rows_.reset();
  }
  shards_->abandon(why);
}

// Trainers have met before, and everything is saved: nobody needs a pserver that is gone.
Status ShardClient::leave() {
  Status left = settle();
  if (left && dense_) left = dense_->leave();
  if (left) left = shards_->leave();
  if (left || left.error().code != Errc::kUnreachable) return left;
  log_info("the job is over: {}", left.error().message);
  return {};
}

}  // namespace paddle::client
