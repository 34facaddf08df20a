#include "engine/strategy/collective/hybrid_client.h"

#include <condition_variable>
#include <mutex>

namespace paddle::strategy {
namespace {

// In which a group learns which of its ranks was lost.
constexpr Duration kGroupNotices = std::chrono::seconds(1);

}  // namespace

// Pservers may have noticed a trainer that has ended because another one was lost.
Status HybridClient::first_cause(Status of_sparse) {
  if (of_sparse) return of_sparse;
  const Status of_group = dense_->watch(kGroupNotices);
  return of_group ? of_sparse : of_group;
}

Status HybridClient::at_once(const std::function<Status()>& dense,
                             const std::function<Status()>& sparse) {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_dense_done = false;
  bool is_dense_interrupted = false;
  Status of_dense;
  Status of_sparse;
  side_.begin([&] {
    of_sparse = sparse();
    if (of_sparse) return;
    std::unique_lock lock(mutex);
    if (changed.wait_for(lock, kGroupNotices, [&] { return is_dense_done; })) return;
    is_dense_interrupted = true;
    dense_->interrupt(of_sparse.error());
  });
  of_dense = dense();
  {
    const std::scoped_lock lock(mutex);
    is_dense_done = true;
  }
  changed.notify_all();
  if (!of_dense) sparse_->interrupt(of_dense.error());
  side_.wait();
  if (is_dense_interrupted) return of_sparse;
  return of_dense ? first_cause(std::move(of_sparse)) : of_dense;
}

// Trainer 0 gives its group what it loads before it tells any port that the job starts.
Status HybridClient::ready() {
  PADDLE_TRY_STATUS(dense_->ready());
  return sparse_->ready();
}

client::JobProgress HybridClient::progress() const {
  client::JobProgress progress = dense_->progress();
  progress.generations = sparse_->progress().generations;
  return progress;
}

Status HybridClient::pull_averages(std::span<client::DenseParameter> dense,
                                   std::span<client::SparseRows> rows) {
  PADDLE_TRY_STATUS(dense_->pull_averages(dense, {}));
  return first_cause(sparse_->pull_averages({}, rows));
}

Status HybridClient::push(std::uint64_t num_samples, double cost_sum,
                          std::span<client::DenseParameter> dense,
                          std::span<client::SparseRows> sparse) {
  return at_once([&] { return dense_->push(num_samples, cost_sum, dense, {}); },
                 [&] { return sparse_->push(num_samples, cost_sum, {}, sparse); });
}

Result<client::PassTotals> HybridClient::end_pass(const Tally& tally, client::PassEnd end) {
  client::PassTotals totals;
  client::PassTotals of_tables;
  PADDLE_TRY_STATUS(at_once(
      [&]() -> Status {
        PADDLE_TRY(totals, dense_->end_pass(tally, end));
        return {};
      },
      [&]() -> Status {
        PADDLE_TRY(of_tables, sparse_->end_pass({}, end));
        return {};
      }));
  if (totals.paused != of_tables.paused) {
    return Error{Errc::kFailed, "the group and the pservers are at different places of the job",
                 "this is a bug"};
  }
  totals.tables = std::move(of_tables.tables);
  totals.sparse = std::move(of_tables.sparse);
  totals.discarded = of_tables.discarded;
  return totals;
}

Status HybridClient::announce_busy(std::string_view activity) {
  PADDLE_TRY_STATUS(first_cause(sparse_->announce_busy(activity)));
  return dense_->announce_busy(activity);
}

Status HybridClient::leave() {
  PADDLE_TRY_STATUS(dense_->leave());
  return sparse_->leave();
}

void HybridClient::interrupt(const Error& why) {
  dense_->interrupt(why);
  sparse_->interrupt(why);
}

void HybridClient::abandon(const Error& why) {
  dense_->abandon(why);
  sparse_->abandon(why);
}

Status HybridClient::load(const std::string& directory) {
  PADDLE_TRY_STATUS(dense_->snapshots().load(directory));
  return sparse_->snapshots().load(directory);
}

Status HybridClient::resume(const snapshot::SnapshotReader& snapshot) {
  PADDLE_TRY_STATUS(dense_->snapshots().resume(snapshot));
  return sparse_->snapshots().resume(snapshot);
}

Status HybridClient::add_to(snapshot::SnapshotWriter& writer, client::SavedRows rows) {
  PADDLE_TRY_STATUS(dense_->snapshots().add_to(writer, rows));
  return first_cause(sparse_->snapshots().add_to(writer, rows));
}

}  // namespace paddle::strategy
