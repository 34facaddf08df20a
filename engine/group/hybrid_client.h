// ParameterClient of a trainer whose dense parameters are kept by the ranks of its group, while its
// tables are on pservers without dense ports. Both parts of a push run at the same time: each may
// wait for other trainers, which may be waiting in the other part.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "engine/client/shard_client.h"
#include "engine/group/group_client.h"

namespace paddle::strategy {

// A thread that does one piece of work at a time beside its owner, and sleeps in between.
class SideThread {
 public:
  SideThread() : thread_([this] { run(); }) {}
  ~SideThread();
  SideThread(const SideThread&) = delete;
  SideThread& operator=(const SideThread&) = delete;

  // begin() starts `work`, which must not throw; wait() waits for its end. Calls alternate.
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
  // Both clients have the same ParameterSet; `sparse` is for its sparse parameters.
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
  Status begin_push(std::uint64_t num_samples, std::span<client::SparseRows> sparse) override;
  Status push(std::uint64_t num_samples, double cost_sum, std::span<client::DenseParameter> dense,
              std::span<client::SparseRows> sparse) override;
  // A lost rank does not return alone, so this fails.
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

  // If the group has failed too, returns its failure instead of the sparse part's.
  Status first_cause(Status of_sparse);
  // Begins the sparse part on side_, and makes the dense part. If one part fails, it ends the wait
  // of the other. The first cause is returned, here or by settle().
  Status begin_both(const std::function<Status()>& dense, std::function<Status()> sparse);
  // Waits for the sparse part that was begun.
  Status settle();

  std::unique_ptr<GroupClient> dense_;
  std::unique_ptr<client::ShardClient> sparse_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_dense_done_ = false;         // the dense part has ended, perhaps before the other
  bool is_dense_interrupted_ = false;  // by the sparse part, which has failed
  Status of_sparse_;
  bool is_under_way_ = false;  // the sparse part; used by the caller's thread
  SideThread side_;
};

}  // namespace paddle::strategy
