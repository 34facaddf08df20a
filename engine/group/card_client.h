// ParameterClient of the only trainer of a job, with all parameters in the memory of its card:
// dense ones in a group of one rank, sparse tables beside them. In a step no value and no gradient
// leaves the card.
#pragma once

#include "engine/group/card_table.h"
#include "engine/group/group_client.h"

namespace paddle::strategy {

class CardClient final : public client::ParameterClient, private client::SnapshotParts {
 public:
  // `dense` and `tables` are of `set`, which outlives the client.
  CardClient(const wire::ParameterSet& set, std::unique_ptr<GroupClient> dense,
             std::unique_ptr<CardTables> tables)
      : set_(set), dense_(std::move(dense)), tables_(std::move(tables)) {}

  Status ready() override { return dense_->ready(); }
  client::JobProgress progress() const override { return dense_->progress(); }
  Status pull_dense(std::span<client::DenseParameter> parameters) override {
    return dense_->pull_dense(parameters);
  }
  Status pull_rows(std::span<client::SparseRows> rows) override {
    return tables_->find(rows, CardTable::Reads::kToTrain);
  }
  // The numbers of rows do not depend on the card's work, and begin_push() gives it the update.
  Result<bool> pull_ahead(std::span<client::SparseRows> rows) override {
    return tables_->find_ahead(rows);
  }
  Status pull_averages(std::span<client::DenseParameter> dense,
                       std::span<client::SparseRows> rows) override;
  // Gives the card the whole update, behind the gradients that it still computes.
  Status begin_push(std::uint64_t num_samples, std::span<client::SparseRows> sparse) override;
  Status push(std::uint64_t num_samples, double cost_sum, std::span<client::DenseParameter> dense,
              std::span<client::SparseRows> sparse) override;
  Status repeat_push(std::uint64_t batch, std::uint64_t num_samples, double cost_sum,
                     std::span<client::DenseParameter> dense,
                     std::span<client::SparseRows> sparse) override {
    return dense_->repeat_push(batch, num_samples, cost_sum, dense, sparse);
  }
  void repeat_end(client::PassEnd end) override { dense_->repeat_end(end); }
  Result<client::PassTotals> end_pass(const Tally& tally, client::PassEnd end) override;
  Result<bool> is_any(bool own) override { return dense_->is_any(own); }
  Status announce_busy(std::string_view activity) override {
    return dense_->announce_busy(activity);
  }
  void ask_to_stop() override { dense_->ask_to_stop(); }
  bool stop_asked() const override { return dense_->stop_asked(); }
  Status leave() override { return dense_->leave(); }
  void interrupt(const Error& why) override { dense_->interrupt(why); }
  void abandon(const Error& why) override { dense_->abandon(why); }
  client::SnapshotParts& snapshots() override { return *this; }

 private:
  Status load(const std::string& directory) override;
  Status resume(const snapshot::SnapshotReader& snapshot) override;
  Result<snapshot::SnapshotInfo> info() override { return dense_->snapshots().info(); }
  Status add_to(snapshot::SnapshotWriter& writer, client::SavedRows rows) override;
  Result<std::uint64_t> leader_batches() override { return dense_->snapshots().leader_batches(); }

  const wire::ParameterSet& set_;
  std::unique_ptr<GroupClient> dense_;
  std::unique_ptr<CardTables> tables_;
  bool has_begun_push_ = false;
};

}  // namespace paddle::strategy
