// ParameterClient over the shards of a job. Each kind of parameters is pushed directly, or by the
// path of its strategy. Snapshots transfer dense parameters whole, and sparse tables in chunks of
// bounded size.
#pragma once

#include <mutex>

#include "engine/client/paths.h"
#include "engine/client/snapshot_parts.h"

namespace paddle::client {

class ShardClient final : public ParameterClient, private SnapshotParts {
 public:
  // A kind whose path is null is pushed directly: push() returns after the answer.
  explicit ShardClient(std::unique_ptr<ShardChannels> shards,
                       std::unique_ptr<DensePath> dense = nullptr,
                       std::unique_ptr<RowsPath> rows = nullptr)
      : shards_(std::move(shards)), dense_(std::move(dense)), rows_(std::move(rows)) {}

  Status ready() override;
  JobProgress progress() const override { return shards_->progress(); }
  Status pull_dense(std::span<DenseParameter> parameters) override;
  Status pull_rows(std::span<SparseRows> rows) override;
  Result<bool> pull_ahead(std::span<SparseRows> rows) override {
    return rows_ ? rows_->pull_ahead(rows) : false;
  }
  Status pull_averages(std::span<DenseParameter> dense, std::span<SparseRows> rows) override;
  Status push(std::uint64_t num_samples, double cost_sum, std::span<DenseParameter> dense,
              std::span<SparseRows> sparse) override;
  Status repeat_push(std::uint64_t batch, std::uint64_t num_samples, double cost_sum,
                     std::span<DenseParameter> dense, std::span<SparseRows> sparse) override;
  void repeat_end(PassEnd end) override { shards_->repeat_end(end == PassEnd::kPause); }
  Result<PassTotals> end_pass(const Tally& tally, PassEnd end) override;
  Status announce_busy(std::string_view activity) override;
  void ask_to_stop() override { shards_->ask_to_stop(); }
  // False until all lanes are at the trainer's position: a snapshot stores only one position.
  bool stop_asked() const override { return shards_->stop_asked() && !is_behind_; }
  Status leave() override;
  void interrupt(const Error& why) override;
  void break_off(const Error& why) override { shards_->break_off(why); }
  void abandon(const Error& why) override;
  SnapshotParts& snapshots() override { return *this; }

 private:
  Status load(const std::string& directory) override;
  Status resume(const snapshot::SnapshotReader& snapshot) override;
  Result<snapshot::SnapshotInfo> info() override;
  Status add_to(snapshot::SnapshotWriter& writer, SavedRows rows) override;
  Result<std::uint64_t> leader_batches() override;
  Status settle();
  Status push_paths(PassEnd end);  // pushes the batches that the paths hold back
  // Calls `await`, which receives the answers to the end of a pass. Meanwhile the dense path takes
  // part in what other trainers do (Path::take_part()). The answers may take long, but do not time
  // out: each port keeps sending Waiting.
  Status take_part(const std::function<Status()>& await);

  std::mutex ending_;  // abandon() destroys the paths, while any thread may interrupt them
  std::unique_ptr<ShardChannels> shards_;
  std::unique_ptr<DensePath> dense_;  // the paths use *shards_, which outlives them
  std::unique_ptr<RowsPath> rows_;
  bool is_behind_ = false;  // pushes leave some lanes out
};

}  // namespace paddle::client
