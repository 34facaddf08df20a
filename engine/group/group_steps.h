// Steps of a group: how one rank makes a batch's update together with the other ranks.
//
// Each step begins with a round, in which every rank sends its StepInfo with a request to all
// others, and receives theirs. Ranks that request the parameters' state, for a test or a snapshot,
// are served first, the lowest rank before the others; the other ranks then send their requests
// again:
//
//              round          served         round        update        round
//     rank 0   kState    \    receives it    kStep   \                  kStep   \ ...
//     rank 1   kStep      >   sends it       kStep    >   sum, and      kStep    >
//     rank 2   kStep     /    sends it       kStep   /    new values    kStep   /
//
// A rank without data takes part, with weight 0, until no rank has data: that ends the pass. Other
// rounds are only barriers, or ask all ranks a question.
//
// INVARIANT: once no rank requests state, all ranks send the same request. So no rank can leave the
// others behind in the job.
// INVARIANT: a round that serves state leaves the gradients of its ranks as they were.
// INVARIANT: the cost of each batch is in exactly one round, even where the round is made before
// the cost is known, and even if the group goes back to a savepoint in between.
#pragma once

#include <atomic>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/group/group_rank.h"
#include "engine/group/group_recovery.h"
#include "engine/group/group_state.h"
#include "engine/group/step_info.h"

namespace paddle::strategy {

class GroupSteps {
 public:
  // `rank`, `state` and `recovery` outlive it.
  GroupSteps(GroupRank& rank, GroupState& state, GroupRecovery& recovery);

  // Makes the round of the next push while a card still computes the gradients, if they can be
  // added up so early. An only rank also gives its card the update. `num_samples` is that of the
  // push.
  Status begin_push(std::uint64_t num_samples);
  // Makes the step of a batch. With local_sgd, only updates the rank's copy, unless a round is due.
  Status push(const client::PushTotals& totals, std::span<client::DenseParameter> dense);
  // Makes steps without data until no rank has data, or until all pause. Returns whether all pause:
  // a rank wants to, or some rank has asked to stop.
  Result<bool> end_pass(client::PassEnd end);

  // Returns when every rank has called it.
  Status barrier();
  // Whether `own` is true on any rank.
  Result<bool> is_any(bool own);
  // Makes rounds until this rank has been served with the parameters' state.
  Status gather_state(GroupState::Planes planes, const GroupState::Use& use);

  // Until the next step or barrier, the others wait for this rank without a time limit.
  void announce_busy(std::string_view activity);
  // Announces a stop to all ranks, with the next step. Any thread may call it.
  void ask_to_stop() { asks_to_stop_ = true; }
  // Whether a step has announced a stop: the same on all ranks.
  bool stop_asked() const { return stop_asked_; }

 private:
  // A rank's request in a round. REQUIRES: requests for state are the last ones, from kState on.
  enum class Request : std::uint32_t {
    kStep = 0,      // the step of a batch, or a step without data
    kMeet = 1,      // a barrier
    kAsk = 2,       // a question; StepInfo::out_of_data carries the rank's answer
    kState = 3,     // all planes of the parameters, sent to this rank
    kAverages = 4,  // the last plane alone, of averages, sent to this rank
  };
  using Infos = std::span<const collective::StepInfo>;

  Status push_moves();
  Status make_step(const client::PushTotals& totals, std::span<client::DenseParameter> dense);
  // Counts and applies a round of pushes as a shard does.
  Status apply(Infos infos);
  // Updates the parameters by a round of pushes that is not counted yet.
  Status update(Infos infos);
  // Reports the ranks that still train, for a rank that has been out of data for `waited`:
  // otherwise the programs that watch the job would consider this rank stalled.
  void report_others_training(Infos infos, Duration waited) const;

  Result<Infos> meet_for_step(collective::StepInfo own);
  // Makes rounds until no rank requests state; all ranks have the same request then.
  Result<Infos> meet(Request request, collective::StepInfo own = {});
  Result<Infos> make_round(Request request, collective::StepInfo own);
  Status check_same(Request request, Infos infos) const;
  // The lowest rank that requests state, if any does.
  static std::optional<std::uint32_t> first_state_request(Infos infos);
  static GroupState::Planes planes_of(const collective::StepInfo& info);

  GroupRank& rank_;
  GroupState& state_;
  GroupRecovery& recovery_;
  const collective::Shares shares_;
  std::vector<float> kept_;  // copy of the carried gradients, put back after a round without a step
  // Infos of all ranks from begin_push() until the push; empty: none.
  std::vector<collective::StepInfo> begun_push_;
  bool is_updated_ = false;  // by begin_push()
  bool is_busy_ = false;
  std::atomic<bool> asks_to_stop_ = false;
  std::atomic<bool> stop_asked_ = false;
};

}  // namespace paddle::strategy
