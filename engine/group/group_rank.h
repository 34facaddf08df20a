// One rank of a group: its connections to the other ranks, its dense parameters, and its position
// in the job. Steps (group_steps.h), transfers of state (group_state.h) and recovery
// (group_recovery.h) work on it in turn.
#pragma once

#include <memory>
#include <optional>

#include "engine/group/card_ranks.h"
#include "engine/group/group.h"
#include "engine/group/group_progress.h"
#include "engine/group/host_ranks.h"
#include "engine/group/local_rounds.h"

namespace paddle::strategy {

struct GroupRank {
  // Flags of the job that are not in its ParameterSet, but must be the same on all ranks.
  struct Flags {
    std::uint32_t passes = 0;
    std::uint32_t saving_period = 0;
    bool has_decisions = false;
    std::uint32_t uneven = 0;
    bool packs = false;  // as in HostRanks::Options
  };
  // Dense parameters are kept on the card, if there is one and it supports all that the job does
  // with them. kUsage, kResource.
  static Result<std::unique_ptr<GroupRank>> create(wire::ParameterSet set,
                                                   std::unique_ptr<collective::Group> group,
                                                   HostRanks::Options options, const Flags& flags,
                                                   std::optional<CardRanks::Options> card);

  std::uint32_t number() const { return group->rank(); }
  // Ends the group, with its waits, on all ranks. Any thread may call it.
  void interrupt(const Error& why) const;
  // Ends the group because of a failure of this rank, without which the others cannot go on.
  // Returns `why`.
  Error fail(Error why) const;

  const wire::ParameterSet set;
  // The group reads and writes memory of `dense` until it has ended, so it is destroyed first.
  std::unique_ptr<DenseRanks> dense;
  std::unique_ptr<collective::Group> group;
  std::optional<LocalRounds> local;  // with local_sgd
  // A hash of everything that must be the same on all ranks. Each round compares it.
  const std::uint64_t plan_hash;

  GroupProgress progress;
  // Cost of batches whose rounds were made before it was known; the next round carries it. It is
  // the only part of the position that differs between ranks.
  double unreported_cost = 0;

 private:
  GroupRank(wire::ParameterSet set, std::unique_ptr<collective::Group> group, const Flags& flags);
  Status make_dense(HostRanks::Options options, bool packs, std::optional<CardRanks::Options> card);
};

}  // namespace paddle::strategy
