// ParameterClient of a trainer whose dense parameters live in the ranks of its group, while its
// tables live on pservers that have no dense ports. Both parts of a push are on their way at the
// same time: each may wait for other trainers, which may be waiting in the other part.
#pragma once

#include "engine/client/shard_client.h"
#include "engine/strategy/collective/group_client.h"
#include "engine/strategy/collective/side_thread.h"

namespace paddle::strategy {

class HybridClient final : public client::ParameterClient, private client::SnapshotParts {
 public:
  // Both of one ParameterSet; the shards are for its sparse parameters.
  HybridClient(std::unique_ptr<GroupClient> dense, std::unique_ptr<client::ShardClient> sparse)
      : dense_(std::move(dense)), sparse_(std::move(sparse)) {}

  Status ready() override;
  client::JobProgress progress() const override;
  Status pull_dense(std::span<client::DenseParameter> parameters) override {
    return dense_->pull_dense(parameters);
  }
  Status pull_rows(std::span<client::SparseRows> rows) override {
    return first_cause(sparse_->pull_rows(rows));
  }
  Status pull_averages(std::span<client::DenseParameter> dense,
                       std::span<client::SparseRows> rows) override;
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
  Result<bool> is_any(bool own) override { return dense_->is_any(own); }
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
  Result<snapshot::SnapshotInfo> info() override { return dense_->snapshots().info(); }
  Status add_to(snapshot::SnapshotWriter& writer, client::SavedRows rows) override;
  Result<std::uint64_t> leader_batches() override { return dense_->snapshots().leader_batches(); }

  // The group's failure in place of one of the sparse part, if it has failed too.
  Status first_cause(Status of_sparse);
  // Calls both at the same time. A part that fails ends the other one's wait; one cause is
  // returned.
  Status at_once(const std::function<Status()>& dense, const std::function<Status()>& sparse);

  std::unique_ptr<GroupClient> dense_;
  std::unique_ptr<client::ShardClient> sparse_;
  SideThread side_;
};

}  // namespace paddle::strategy
