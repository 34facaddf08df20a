#include "engine/group/group_rank.h"

#include <utility>

#include <fmt/format.h>

#include "base/rng.h"
#include "engine/table/parameter_set.h"

namespace paddle::strategy {
namespace {

std::uint64_t plan_hash_of(const wire::ParameterSet& set, const collective::Group& group,
                           const GroupRank::Flags& flags) {
  return hash_combine(
      hash_combine(stable_hash(set.SerializeAsString()),
                   hash_combine(kBucketElements, group.has_levels() ? 1 : 0)),
      hash_combine(hash_combine(flags.passes, flags.saving_period),
                   hash_combine((flags.packs ? 2 : 0) + flags.has_decisions, flags.uneven)));
}

}  // namespace

Result<std::unique_ptr<GroupRank>> GroupRank::create(wire::ParameterSet set,
                                                     std::unique_ptr<collective::Group> group,
                                                     HostRanks::Options options, const Flags& flags,
                                                     std::optional<CardRanks::Options> card) {
  PADDLE_TRY_STATUS(parameter::validate(set));
  if (set.num_trainers() != group->size()) {
    return Error{Errc::kUsage, fmt::format("the group has {} ranks, but the job has {} trainers",
                                           group->size(), set.num_trainers())};
  }
  std::unique_ptr<GroupRank> rank(new GroupRank(std::move(set), std::move(group), flags));
  const Status made = rank->make_dense(std::move(options), flags.packs, std::move(card));
  if (!made) return rank->fail(made.error());
  return rank;
}

void GroupRank::interrupt(const Error& why) const {
  group->abort(why);
  if (dense) dense->interrupt(why);
}

Error GroupRank::fail(Error why) const {
  interrupt(why);
  return why;
}

GroupRank::GroupRank(wire::ParameterSet parameters, std::unique_ptr<collective::Group> joined,
                     const Flags& flags)
    : set(std::move(parameters)),
      group(std::move(joined)),
      plan_hash(plan_hash_of(set, *group, flags)),
      progress(group->size()) {}

Status GroupRank::make_dense(HostRanks::Options options, bool packs,
                             std::optional<CardRanks::Options> card) {
  options.packs = packs;
  const bool is_local = set.dense_strategy() == wire::STRATEGY_LOCAL_SGD;
  if (packs && (is_local || group->has_levels())) {
    return Error{Errc::kUsage, "bf16 transfer does not support local_sgd or node_groups"};
  }
  if (card && !is_local && !packs && !group->has_levels() && CardRanks::can_keep(set)) {
    PADDLE_TRY(dense, CardRanks::create(set, *group, *std::move(card)));
    return {};
  }
  if (is_local) options.floats_beside = LocalRounds::floats_of_element(set);
  PADDLE_TRY(auto ranks, HostRanks::create(set, *group, std::move(options)));
  if (is_local) local.emplace(set, *ranks);
  dense = std::move(ranks);
  return {};
}

}  // namespace paddle::strategy
