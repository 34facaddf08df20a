#include "engine/group/hybrid_client.h"

namespace paddle::strategy {
namespace {

// Time in which a group finds out which of its ranks was lost.
constexpr Duration kGroupNotices = std::chrono::seconds(1);

}  // namespace

SideThread::~SideThread() {
  {
    const std::scoped_lock lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void SideThread::begin(std::function<void()> work) {
  {
    const std::scoped_lock lock(mutex_);
    work_ = std::move(work);
  }
  changed_.notify_all();
}

void SideThread::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return work_ == nullptr; });
}

void SideThread::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_over_ || work_ != nullptr; });
    if (work_ == nullptr) return;
    lock.unlock();
    work_();
    lock.lock();
    work_ = nullptr;
    changed_.notify_all();
  }
}

// A trainer that has failed may destroy the client during a push.
HybridClient::~HybridClient() {
  if (is_under_way_) sparse_->interrupt({Errc::kFailed, "the trainer has ended"});
}

// Trainer 0 sends its group what it loads before it sends Ready to any port.
Status HybridClient::ready() {
  PADDLE_TRY_STATUS(settle());
  PADDLE_TRY_STATUS(dense_->ready());
  return sparse_->ready();
}

client::JobProgress HybridClient::progress() const {
  client::JobProgress progress = dense_->progress();
  progress.generations = sparse_->progress().generations;
  return progress;
}

Status HybridClient::pull_dense(std::span<client::DenseParameter> parameters) {
  PADDLE_TRY_STATUS(settle());
  return dense_->pull_dense(parameters);
}

Status HybridClient::pull_rows(std::span<client::SparseRows> rows) {
  PADDLE_TRY_STATUS(settle());
  return first_cause(sparse_->pull_rows(rows));
}

Result<bool> HybridClient::pull_ahead(std::span<client::SparseRows> rows) {
  PADDLE_TRY_STATUS(settle());
  Result<bool> pulled = sparse_->pull_ahead(rows);
  if (pulled) return pulled;
  return first_cause(std::move(pulled).error()).error();
}

Status HybridClient::pull_averages(std::span<client::DenseParameter> dense,
                                   std::span<client::SparseRows> rows) {
  PADDLE_TRY_STATUS(settle());
  PADDLE_TRY_STATUS(dense_->pull_averages(dense, {}));
  return first_cause(sparse_->pull_averages({}, rows));
}

Status HybridClient::begin_push(std::uint64_t num_samples,
                                std::span<client::SparseRows> /*sparse*/) {
  PADDLE_TRY_STATUS(settle());
  return dense_->begin_push(num_samples, {});
}

Status HybridClient::push(std::uint64_t num_samples, double cost_sum,
                          std::span<client::DenseParameter> dense,
                          std::span<client::SparseRows> sparse) {
  return begin_both([&] { return dense_->push(num_samples, cost_sum, dense, {}); },
                    [=, this] { return sparse_->push(num_samples, cost_sum, {}, sparse); });
}

Result<client::PassTotals> HybridClient::end_pass(const Tally& tally, client::PassEnd end) {
  client::PassTotals totals;
  client::PassTotals of_tables;
  PADDLE_TRY_STATUS(begin_both(
      [&]() -> Status {
        PADDLE_TRY(totals, dense_->end_pass(tally, end));
        return {};
      },
      [&]() -> Status {
        PADDLE_TRY(of_tables, sparse_->end_pass({}, end));
        return {};
      }));
  PADDLE_TRY_STATUS(settle());
  if (totals.paused != of_tables.paused) {
    return Error{Errc::kFailed, "the group and the pservers are at different places of the job",
                 "this is a bug"};
  }
  totals.tables = std::move(of_tables.tables);
  totals.sparse = std::move(of_tables.sparse);
  totals.discarded = of_tables.discarded;
  return totals;
}

Result<bool> HybridClient::is_any(bool own) {
  PADDLE_TRY_STATUS(settle());
  return dense_->is_any(own);
}

Status HybridClient::announce_busy(std::string_view activity) {
  PADDLE_TRY_STATUS(settle());
  PADDLE_TRY_STATUS(first_cause(sparse_->announce_busy(activity)));
  return dense_->announce_busy(activity);
}

Status HybridClient::leave() {
  PADDLE_TRY_STATUS(settle());
  PADDLE_TRY_STATUS(dense_->leave());
  return sparse_->leave();
}

void HybridClient::interrupt(const Error& why) {
  dense_->interrupt(why);
  sparse_->interrupt(why);
}

void HybridClient::abandon(const Error& why) {
  interrupt(why);
  (void)settle();
  dense_->abandon(why);
  sparse_->abandon(why);
}

Status HybridClient::load(const std::string& directory) {
  PADDLE_TRY_STATUS(settle());
  PADDLE_TRY_STATUS(dense_->snapshots().load(directory));
  return sparse_->snapshots().load(directory);
}

Status HybridClient::resume(const snapshot::SnapshotReader& snapshot) {
  PADDLE_TRY_STATUS(settle());
  PADDLE_TRY_STATUS(dense_->snapshots().resume(snapshot));
  return sparse_->snapshots().resume(snapshot);
}

Result<snapshot::SnapshotInfo> HybridClient::info() {
  PADDLE_TRY_STATUS(settle());
  return dense_->snapshots().info();
}

Status HybridClient::add_to(snapshot::SnapshotWriter& writer, client::SavedRows rows) {
  PADDLE_TRY_STATUS(settle());
  PADDLE_TRY_STATUS(dense_->snapshots().add_to(writer, rows));
  return first_cause(sparse_->snapshots().add_to(writer, rows));
}

Result<std::uint64_t> HybridClient::leader_batches() {
  PADDLE_TRY_STATUS(settle());
  return dense_->snapshots().leader_batches();
}

// Pservers may have reported a trainer that only ended because another one was lost.
Status HybridClient::first_cause(Status of_sparse) {
  if (of_sparse) return of_sparse;
  const Status of_group = dense_->watch(kGroupNotices);
  return of_group ? of_sparse : of_group;
}

Status HybridClient::begin_both(const std::function<Status()>& dense,
                                std::function<Status()> sparse) {
  PADDLE_TRY_STATUS(settle());
  is_dense_done_ = is_dense_interrupted_ = false;
  is_under_way_ = true;
  side_.begin([this, sparse = std::move(sparse)] {
    of_sparse_ = sparse();
    if (of_sparse_) return;
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, kGroupNotices, [this] { return is_dense_done_; })) return;
    is_dense_interrupted_ = true;
    dense_->interrupt(of_sparse_.error());
  });
  Status of_dense = dense();
  {
    const std::scoped_lock lock(mutex_);
    is_dense_done_ = true;
  }
  changed_.notify_all();
  if (of_dense) return of_dense;
  sparse_->interrupt(of_dense.error());
  const Status of_sparse = settle();
  return is_dense_interrupted_ ? of_sparse : of_dense;
}

Status HybridClient::settle() {
  if (!std::exchange(is_under_way_, false)) return {};
  side_.wait();
  return is_dense_interrupted_ ? std::move(of_sparse_) : first_cause(std::move(of_sparse_));
}

}  // namespace paddle::strategy
