// ParameterClient of a trainer that is a rank of a group: the ranks keep the dense parameters, and
// a push is a step of all ranks. It keeps no sparse tables: see HybridClient.
//
// Every call that needs the other ranks begins with a round, in which each rank sends its request.
// Ranks that want the parameters' state, for a test or a snapshot, are served first, the lowest
// rank before the others; the other ranks then send their requests again.
//
// With local_sgd, ranks train copies of their own, and a round averages the moves of these copies
// (LocalRounds).
//
// If the set's trainers_return(), a rank that was lost is restarted, and the others join a new
// group with it: all go back to the newest savepoint that each of them has kept
// (group_savepoints.h).
#pragma once

#include <atomic>
#include <span>
#include <vector>

#include "engine/client/parameter_client.h"
#include "engine/client/snapshot_parts.h"
#include "engine/group/card_ranks.h"
#include "engine/group/group_savepoints.h"
#include "engine/group/host_ranks.h"
#include "engine/group/step_info.h"
#include "engine/math/optimizer.h"
#include "engine/math/schedule.h"
#include "engine/strategy/replica.h"
#include "proto/collective.pb.h"

namespace paddle::strategy {

// The ranks' position in their job: steps, passes and their totals, the same on all ranks.
struct GroupPlace {
  explicit GroupPlace(std::uint32_t ranks) : cursors(ranks), pass_batches(ranks) {}

  // Counts a round of pushes as a shard does, except for costs, which a later round may carry.
  void count(std::span<const collective::StepInfo> infos);
  // Ends the pass, or pauses in it, and returns the totals for all trainers.
  const client::PassTotals& end_pass(Tally all, bool is_pause);
  // Goes to the position of a snapshot, or of a savepoint.
  void go_to(const wire::LoadBegin& place, const wire::PassOrigins& from);
  void go_to(const wire::GroupSavepoint& savepoint);
  // Sets all fields that go_to() reads.
  void write_to(wire::GroupSavepoint& savepoint) const;
  static bool is_whole(const wire::GroupSavepoint& savepoint);
  client::JobProgress progress(std::uint32_t rank) const;
  // Whether some rank has done a batch of the pass.
  bool is_within_pass() const;

  std::uint64_t step = 0;
  std::uint64_t samples = 0;
  std::uint64_t passes = 0;
  std::uint64_t passes_loaded = 0;
  optim::Progress begun;  // progress before this pass, or before this part of it
  std::uint64_t pauses = 0;
  std::vector<std::uint64_t> cursors;       // number of all pushes, by rank
  std::vector<std::uint64_t> pass_batches;  // by rank
  client::PassTotals pass;
  client::PassTotals ended;   // the totals of the last end or pause
  bool is_restored = false;   // from a savepoint
  wire::PassOrigins origins;  // from the snapshot that the job continues from
};

// A rank's own copy of the dense parameters, which it updates alone between two rounds of the
// group: local_sgd. A round pushes the copy's move (replica.h).
class LocalRounds {
 public:
  // `set` and `ranks` outlive it.
  LocalRounds(const wire::ParameterSet& set, const HostRanks& ranks)
      : ranks_(ranks), replica_(set, 1), window_(set) {}
  // Memory for an element, in floats: the copy, the group's last values, the optimizer's state, a
  // move, the move that is pushed, and the values of a round.
  static std::uint64_t floats_of_element(const wire::ParameterSet& set);

  // Reads the values of the copy, which begins with the group's values.
  void pull(std::span<client::DenseParameter> parameters);
  // Makes a batch's step on the copy. `begun` is the job's progress before the pass.
  void add(const client::PushTotals& totals, const optim::Progress& begun,
           std::span<client::DenseParameter> parameters);
  bool is_round_due() const { return window_.is_full(); }
  bool is_empty() const { return window_.is_empty(); }
  client::PushTotals take_totals() { return window_.take(); }
  std::vector<client::DenseParameter> take_moves() { return replica_.take_moves(); }
  // Called after a round of the group: the copy becomes the mean.
  void on_round() { replica_.reset(group_values()); }
  void copy_to(std::span<client::DenseParameter> parameters) const { replica_.copy_to(parameters); }
  void end_pass(client::PassEnd end) { window_.end_pass(end); }

 private:
  std::vector<client::DenseParameter> group_values() const;

  const HostRanks& ranks_;
  DenseReplica replica_;
  ReplicaWindow window_;
};

class GroupClient final : public client::ParameterClient, private client::SnapshotParts {
 public:
  // Flags of the job that are not in its ParameterSet, but must be the same on all ranks.
  struct Flags {
    std::uint32_t passes = 0;
    std::uint32_t saving_period = 0;
    bool has_decisions = false;
    std::uint32_t uneven = 0;
    bool packs = false;  // as in HostRanks::Options
  };
  // Dense parameters are kept on the card, if there is one and it supports all that the job does
  // with them. `savepoints` says where this rank keeps savepoints, if the set's trainers return.
  // kUsage, kResource.
  static Result<std::unique_ptr<GroupClient>> create(
      wire::ParameterSet set, std::unique_ptr<collective::Group> group, HostRanks::Options options,
      const Flags& flags, std::optional<CardRanks::Options> card = {},
      std::optional<GroupSavepoints::Options> savepoints = {});

  Status ready() override;
  client::JobProgress progress() const override { return place_.progress(group_->rank()); }
  Status pull_dense(std::span<client::DenseParameter> parameters) override;
  Status pull_rows(std::span<client::SparseRows> rows) override;
  Status pull_averages(std::span<client::DenseParameter> dense,
                       std::span<client::SparseRows> rows) override;
  Status begin_push(std::uint64_t num_samples) override;
  Status push(std::uint64_t num_samples, double cost_sum, std::span<client::DenseParameter> dense,
              std::span<client::SparseRows> sparse) override;
  // Never needed, because all ranks return to a savepoint after a loss: kUsage.
  Status repeat_push(std::uint64_t batch, std::uint64_t num_samples, double cost_sum,
                     std::span<client::DenseParameter> dense,
                     std::span<client::SparseRows> sparse) override;
  void repeat_end(client::PassEnd end) override;
  // A rank without data takes part in the steps of the others until none has data.
  Result<client::PassTotals> end_pass(const Tally& tally, client::PassEnd end) override;
  Result<bool> is_any(bool own) override;
  Status announce_busy(std::string_view activity) override;
  void ask_to_stop() override { asks_to_stop_ = true; }
  bool stop_asked() const override { return stop_asked_; }
  Status leave() override;
  void interrupt(const Error& why) override {
    group_->abort(why);
    ranks_->interrupt(why);
  }
  void abandon(const Error& why) override { interrupt(why); }
  // Waits at most `patience` for the group to fail; returns the first cause, or OK.
  Status watch(Duration patience) {
    return group_->watch(std::chrono::steady_clock::now() + patience);
  }
  client::SnapshotParts& snapshots() override { return *this; }

 private:
  enum class Request : std::uint32_t { kStep = 0, kMeet = 1, kAsk = 2, kState = 3, kAverages = 4 };
  // The root's end of a transfer: provides memory for a parameter's plane, and uses the
  // result.
  class Sink;
  class AverageSink;
  class SnapshotSink;
  using Infos = std::span<const collective::StepInfo>;

  GroupClient(wire::ParameterSet set, std::unique_ptr<collective::Group> group, const Flags& flags);
  Status make_ranks(HostRanks::Options options, const Flags& flags,
                    std::optional<CardRanks::Options> card);

  Status load(const std::string& directory) override;
  Status resume(const snapshot::SnapshotReader& snapshot) override;
  Result<snapshot::SnapshotInfo> info() override;
  Status add_to(snapshot::SnapshotWriter& writer, client::SavedRows rows) override;
  Result<std::uint64_t> leader_batches() override { return place_.pass_batches[0]; }

  // Aborts the group because of a failure of this rank, without which the others cannot go on.
  Error fail(Error why);
  Result<Infos> begin_round(Request request, collective::StepInfo own);
  // Makes rounds until no rank wants state; all ranks have the same request then.
  Result<Infos> meet(Request request, collective::StepInfo own = {});
  // Makes rounds until this rank has been served.
  Status fetch(Request request, Sink& sink);
  // The lowest rank that wants state, if any does.
  static std::optional<std::uint32_t> first_state_request(Infos infos);
  Status serve(std::uint32_t root, Request request, Sink* sink);
  // Makes a round with gradients, or with the moves of copies.
  Status push_round(const client::PushTotals& totals, std::span<client::DenseParameter> dense);
  Status push_moves();
  // Reports the ranks that still train, for a rank that has been out of data for `waited`:
  // otherwise the programs that watch the job would consider this rank stalled.
  void report_others_training(Infos infos, Duration waited);
  std::vector<float> shares_of(Infos infos) const;
  Status apply(Infos infos);

  // Savepoints, and going back to one.
  Status go_back(std::optional<GroupSavepoints::Options> options, std::uint64_t bytes_max);
  Status restore(const GroupSavepoints::Mark& mark);
  bool wants_savepoint() const;
  void keep_savepoint();

  Status load_as_root(const snapshot::SnapshotReader& snapshot, bool resumes);
  Status load_from_root(const wire::GroupStart& start);
  Status spread(std::uint32_t parameter, std::span<const float> value, std::span<const float> state,
                std::uint64_t update_count);
  Status send_start(const wire::LoadBegin* place, const wire::PassOrigins& origins);
  Result<std::optional<wire::GroupStart>> receive_start();

  wire::ParameterSet set_;
  // The group reads and writes memory of the ranks until it has ended, so it is destroyed first.
  std::unique_ptr<DenseRanks> ranks_;
  std::unique_ptr<collective::Group> group_;
  std::optional<LocalRounds> local_;
  std::uint64_t plan_hash_ = 0;
  std::vector<float> kept_;  // copy of the carried gradients, put back after a round without a step
  // Infos of all ranks from begin_push() until the push; empty: none.
  std::vector<collective::StepInfo> begun_push_;
  // Cost of batches whose rounds were made before it was known; the next round carries it.
  double unreported_cost_ = 0;
  bool is_busy_ = false;
  bool is_paused_ = false;

  GroupPlace place_;
  std::unique_ptr<GroupSavepoints> savepoints_;  // null: this rank keeps none
  std::uint64_t savepoint_number_ = 0;
  bool repeats_end_ = false;
  std::atomic<bool> asks_to_stop_ = false;
  std::atomic<bool> stop_asked_ = false;
};

}  // namespace paddle::strategy
