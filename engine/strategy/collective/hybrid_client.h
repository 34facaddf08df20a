// ParameterClient of a trainer whose dense parameters live in the ranks of its group, while its
// tables live on pservers that have no dense ports. Both parts of a push are on their way at the
// same time: each may wait for other trainers, which may be waiting in the other part.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "engine/client/shard_client.h"
#include "engine/strategy/collective/group_client.h"

namespace paddle::strategy {

// A thread that does one thing at a time beside its owner. Between two things it sleeps.
class SideThread {
 public:
  SideThread() : thread_([this] { run(); }) {}
  ~SideThread();
  SideThread(const SideThread&) = delete;
  SideThread& operator=(const SideThread&) = delete;

  // One begin(), then one wait() for its end. `work` must not throw.
  void begin(std::function<void()> work);
  void wait();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;  // null: nothing to do
  bool is_over_ = false;
  std::thread thread_;
};

class HybridClient final : public client::ParameterClient, private client::SnapshotParts {
 public:
  // Both of one ParameterSet; the shards are for its sparse parameters.
  HybridClient(std::unique_ptr<GroupClient> dense, std::unique_ptr<client::ShardClient> sparse)
      : dense_(std::move(dense)), sparse_(std::move(sparse)) {}
  ~HybridClient() override;
  HybridClient(const HybridClient&) = delete;
  HybridClient& operator=(const HybridClient&) = delete;

  Status ready() override;
  client::JobProgress progress() const override;
  Status pull_dense(std::span<client::DenseParameter> parameters) override;
  Status pull_rows(std::span<client::SparseRows> rows) override;
  Result<bool> pull_ahead(std::span<client::SparseRows> rows) override;
  Status pull_averages(std::span<client::DenseParameter> dense,
                       std::span<client::SparseRows> rows) override;
  Status begin_push(std::uint64_t num_samples) override;
  Status push(std::uint64_t num_samples, double cost_sum, std::span<client::DenseParameter> dense,
              std::span<client::SparseRows> sparse) override;
  // A rank that was lost does not come back alone.
  Status repeat_push(std::uint64_t batch, std::uint64_t num_samples, double cost_sum,
                     std::span<client::DenseParameter> dense,
                     std::span<client::SparseRows> sparse) override {
    return dense_->repeat_push(batch, num_samples, cost_sum, dense, sparse);
  }
  void repeat_end(client::PassEnd end) override { dense_->repeat_end(end); }
  Result<client::PassTotals> end_pass(const Tally& tally, client::PassEnd end) override;
  Result<bool> is_any(bool own) override;
  Status announce_busy(std::string_view activity) override;
  void ask_to_stop() override { dense_->ask_to_stop(); }
  bool stop_asked() const override { return dense_->stop_asked(); }
  Status leave() override;
  void interrupt(const Error& why) override;
  void abandon(const Error& why) override;
  client::SnapshotParts& snapshots() override { return *this; }

 private:
  Status load(const std::string& directory) override;
  Status resume(const snapshot::SnapshotReader& snapshot) override;
  Result<snapshot::SnapshotInfo> info() override;
  Status add_to(snapshot::SnapshotWriter& writer, client::SavedRows rows) override;
  Result<std::uint64_t> leader_batches() override;

  // The group's failure in place of one of the sparse part, if it has failed too.
  Status first_cause(Status of_sparse);
  // Begins the sparse part beside the caller, and makes the dense one. A part that fails ends the
  // other one's wait; one cause is returned, here or by settle().
  Status begin_both(const std::function<Status()>& dense, std::function<Status()> sparse);
  // Waits for the sparse part that was begun.
  Status settle();

  std::unique_ptr<GroupClient> dense_;
  std::unique_ptr<client::ShardClient> sparse_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_dense_done_ = false;         // of the two parts under way
  bool is_dense_interrupted_ = false;  // by the sparse part, which has failed
  Status of_sparse_;
  bool is_under_way_ = false;  // the sparse part, for the caller's thread
  SideThread side_;
};

}  // namespace paddle::strategy
