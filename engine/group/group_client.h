// ParameterClient of a trainer that is a rank of a group: the ranks keep the dense parameters, and
// a push is a step of all ranks. It keeps no sparse tables: see HybridClient and CardClient.
//
//     GroupClient -+-> GroupSteps      group_steps.h      rounds of all ranks, and updates
//                  +-> GroupState      group_state.h      snapshots, and state for tests
//                  +-> GroupRecovery   group_recovery.h   savepoints, after the loss of a rank
//                  all three work on its GroupRank        group_rank.h
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "engine/client/parameter_client.h"
#include "engine/client/snapshot_parts.h"
#include "engine/group/group_rank.h"
#include "engine/group/group_recovery.h"
#include "engine/group/group_state.h"
#include "engine/group/group_steps.h"

namespace paddle::strategy {

class GroupClient final : public client::ParameterClient, private client::SnapshotParts {
 public:
  using Flags = GroupRank::Flags;
  // Makes the rank as GroupRank::create() does. If the set's trainers return, the rank goes back to
  // the common savepoint of all ranks; `savepoints` says where it keeps its own. kUsage, kResource.
  static Result<std::unique_ptr<GroupClient>> create(
      wire::ParameterSet set, std::unique_ptr<collective::Group> group, HostRanks::Options options,
      const Flags& flags, std::optional<CardRanks::Options> card = {},
      std::optional<GroupSavepoints::Options> savepoints = {});

  Status ready() override;
  client::JobProgress progress() const override {
    return rank_->progress.progress(rank_->number());
  }
  Status pull_dense(std::span<client::DenseParameter> parameters) override;
  Status pull_rows(std::span<client::SparseRows> rows) override;
  Status pull_averages(std::span<client::DenseParameter> dense,
                       std::span<client::SparseRows> rows) override;
  Status begin_push(std::uint64_t num_samples, std::span<client::SparseRows> /*sparse*/) override {
    return steps_.begin_push(num_samples);
  }
  Status push(std::uint64_t num_samples, double cost_sum, std::span<client::DenseParameter> dense,
              std::span<client::SparseRows> sparse) override;
  // Never needed, because all ranks return to a savepoint after a loss: kUsage.
  Status repeat_push(std::uint64_t batch, std::uint64_t num_samples, double cost_sum,
                     std::span<client::DenseParameter> dense,
                     std::span<client::SparseRows> sparse) override;
  void repeat_end(client::PassEnd end) override;
  Result<client::PassTotals> end_pass(const Tally& tally, client::PassEnd end) override;
  Result<bool> is_any(bool own) override { return steps_.is_any(own); }
  Status announce_busy(std::string_view activity) override;
  void ask_to_stop() override { steps_.ask_to_stop(); }
  bool stop_asked() const override { return steps_.stop_asked(); }
  Status leave() override;
  void interrupt(const Error& why) override { rank_->interrupt(why); }
  void abandon(const Error& why) override { rank_->interrupt(why); }
  // Waits at most `patience` for the group to fail; returns the first cause, or OK.
  Status watch(Duration patience);
  client::SnapshotParts& snapshots() override { return *this; }

 private:
  explicit GroupClient(std::unique_ptr<GroupRank> rank)
      : rank_(std::move(rank)),
        state_(*rank_),
        recovery_(*rank_),
        steps_(*rank_, state_, recovery_) {}

  Status load(const std::string& directory) override;
  Status resume(const snapshot::SnapshotReader& snapshot) override;
  Result<snapshot::SnapshotInfo> info() override { return state_.info(); }
  Status add_to(snapshot::SnapshotWriter& writer, client::SavedRows rows) override;
  Result<std::uint64_t> leader_batches() override { return rank_->progress.pass_batches[0]; }

  const std::unique_ptr<GroupRank> rank_;
  GroupState state_;
  GroupRecovery recovery_;
  GroupSteps steps_;
  bool repeats_end_ = false;
};

}  // namespace paddle::strategy
