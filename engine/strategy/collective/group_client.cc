#include "engine/strategy/collective/group_client.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/log.h"
#include "base/rng.h"
#include "engine/optim/optimizer.h"
#include "engine/parameter/parameter_set.h"
#include "engine/strategy/collective/sinks.h"

namespace paddle::strategy {
namespace {

// In which the others, which have come to the end too, close their connections.
constexpr Duration kLeaveMax = std::chrono::seconds(30);

}  // namespace

GroupClient::GroupClient(wire::ParameterSet set, std::unique_ptr<collective::Group> group,
                         const Flags& flags)
    : set_(std::move(set)),
      group_(std::move(group)),
      plan_hash_(hash_combine(
          hash_combine(stable_hash(set_.SerializeAsString()),
                       hash_combine(kBucketElements, group_->has_levels() ? 1 : 0)),
          hash_combine(hash_combine(flags.passes, flags.saving_period),
                       hash_combine((flags.packs ? 2 : 0) + flags.has_decisions, flags.uneven)))),
      place_(group_->size()) {}

Result<std::unique_ptr<GroupClient>> GroupClient::create(wire::ParameterSet set,
                                                         std::unique_ptr<collective::Group> group,
                                                         HostRanks::Options options,
                                                         const Flags& flags,
                                                         std::optional<CardRanks::Options> card,
                                                         std::optional<GroupCuts::Options> cuts) {
  PADDLE_TRY_STATUS(parameter::validate(set));
  if (set.num_trainers() != group->size()) {
    return Error{Errc::kUsage, fmt::format("a group of {} ranks for {} trainers", group->size(),
                                           set.num_trainers())};
  }
  std::unique_ptr<GroupClient> client(new GroupClient(std::move(set), std::move(group), flags));
  const std::uint64_t bytes_max = options.bytes_max;
  const Status made = client->make_ranks(std::move(options), flags, std::move(card));
  if (!made) return client->fail(made.error());
  PADDLE_TRY_STATUS(client->go_back(std::move(cuts), bytes_max));
  return client;
}

Status GroupClient::make_ranks(HostRanks::Options options, const Flags& flags,
                               std::optional<CardRanks::Options> card) {
  options.packs = flags.packs;
  const bool is_local = LocalRounds::are_of(set_);
  if (flags.packs && (is_local || group_->has_levels())) {
    return Error{Errc::kUsage, "a wire of bf16 is neither for local_sgd nor node_groups"};
  }
  if (card && !is_local && !flags.packs && !group_->has_levels() && CardRanks::can_keep(set_)) {
    PADDLE_TRY(ranks_, CardRanks::create(set_, *group_, *std::move(card)));
    return {};
  }
  if (is_local) options.floats_beside = LocalRounds::floats_of_element(set_);
  PADDLE_TRY(auto ranks, HostRanks::create(set_, *group_, std::move(options)));
  if (is_local) local_.emplace(set_, *ranks);
  ranks_ = std::move(ranks);
  return {};
}

Error GroupClient::fail(Error why) {
  group_->abort(why);
  if (ranks_) ranks_->interrupt(why);
  return why;
}

Status GroupClient::pull_dense(std::span<client::DenseParameter> parameters) {
  if (local_) {
    local_->pull(parameters);
    return {};
  }
  return ranks_->lend(parameters);
}

Status GroupClient::pull_rows(std::span<client::SparseRows> rows) {
  if (rows.empty()) return {};
  return Error{Errc::kUsage, "rows are pulled", "a group keeps no sparse tables"};
}

Result<GroupClient::Infos> GroupClient::begin_round(Wish wish, collective::StepInfo own) {
  // State is fetched in the midst of a test or a save.
  const bool ends_work = wish < Wish::kState;
  if (ends_work && std::exchange(is_busy_, false)) group_->set_activity("");
  own.step = place_.step;
  own.plan_hash = plan_hash_;
  own.wish = static_cast<std::uint32_t>(wish);
  const std::span<float> carried = ranks_->carried();
  kept_.assign(carried.begin(), carried.end());
  PADDLE_TRY(const Infos infos,
             group_->begin_step(own, carried,
                                set_.merge() == wire::MERGE_SUM ? &collective::sum_shares
                                                                : &collective::mean_shares));
  return infos;
}

std::optional<std::uint32_t> GroupClient::first_wish(Infos infos) {
  const auto wants_state = [](const collective::StepInfo& info) {
    return info.wish >= static_cast<std::uint32_t>(Wish::kState);
  };
  const auto found = std::ranges::find_if(infos, wants_state);
  if (found == infos.end()) return std::nullopt;
  return static_cast<std::uint32_t>(found - infos.begin());
}

Result<GroupClient::Infos> GroupClient::meet(Wish wish, collective::StepInfo own) {
  own.cost += std::exchange(cost_untold_, 0.0);
  for (;;) {
    PADDLE_TRY(const Infos infos, begin_round(wish, own));
    const auto root = first_wish(infos);
    if (!root) {
      for (std::uint32_t rank = 0; rank < infos.size(); ++rank) {
        if (infos[rank].wish == static_cast<std::uint32_t>(wish)) continue;
        return fail(
            Error{Errc::kFailed,
                  fmt::format("{} and {} are at different places of the job (step {})",
                              group_->name(rank), group_->name(group_->rank()), place_.step),
                  "this is a bug"});
      }
      for (const collective::StepInfo& info : infos) place_.pass.cost += info.cost;
      return infos;
    }
    std::ranges::copy(kept_, ranks_->carried().begin());
    PADDLE_TRY_STATUS(serve(*root, static_cast<Wish>(infos[*root].wish), nullptr));
  }
}

Status GroupClient::fetch(Wish wish, Sink& sink) {
  for (;;) {
    PADDLE_TRY(const Infos infos, begin_round(wish, {}));
    const std::uint32_t root = *first_wish(infos);  // at most this rank
    const auto wanted = static_cast<Wish>(infos[root].wish);
    const bool is_own = root == group_->rank();
    PADDLE_TRY_STATUS(serve(root, wanted, is_own ? &sink : nullptr));
    if (is_own) return {};
  }
}

// The root takes part to the end, whatever becomes of its sink.
Status GroupClient::serve(std::uint32_t root, Wish wish, Sink* sink) {
  const std::uint32_t last = ranks_->state_width();
  const std::uint32_t first = wish == Wish::kAverages ? last : 0;
  for (const std::uint32_t parameter : ranks_->layout().dense()) {
    for (std::uint32_t plane = first; plane <= last; ++plane) {
      const auto into = sink == nullptr ? std::span<float>() : sink->place(parameter, plane);
      PADDLE_TRY_STATUS(ranks_->gather(root, parameter, plane, into));
    }
    if (sink != nullptr) sink->finish(parameter);
  }
  return {};
}

Status GroupClient::pull_averages(std::span<client::DenseParameter> dense,
                                  std::span<client::SparseRows> rows) {
  PADDLE_TRY_STATUS(pull_rows(rows));
  if (dense.empty()) return {};
  if (!optim::has_average(set_.optimizer())) return ranks_->lend(dense);
  for (client::DenseParameter& one : dense) {
    one.lent = {};
    one.card.value = nullptr;
  }
  AverageSink sink(*ranks_, dense);
  return fetch(Wish::kAverages, sink);
}

Result<client::PassTotals> GroupClient::end_pass(const Tally& tally, client::PassEnd end) {
  if (std::exchange(repeats_end_, false)) return place_.ended;
  const bool is_finite =
      std::ranges::all_of(tally.sums, [](double sum) { return std::isfinite(sum); });
  if (!is_finite) {
    return fail(Error{Errc::kFailed, fmt::format("a sum of trainer {}'s evaluators is not finite",
                                                 group_->rank())});
  }
  bool pauses = end == client::PassEnd::kPause;
  if (local_ && !local_->is_empty()) {
    PADDLE_TRY_STATUS(push_moves());
    pauses = pauses || stop_asked_;  // as those do whose data goes on after this round
  }
  bool is_over = false;
  const TimePoint begun = std::chrono::steady_clock::now();
  while (!pauses && !is_over) {
    PADDLE_TRY(const Infos infos,
               meet(Wish::kStep, {.stop = asks_to_stop_, .out_of_data = true, .cut = wants_cut()}));
    is_over = std::ranges::all_of(infos, &collective::StepInfo::out_of_data);
    if (is_over) break;
    tell_others_train(infos, std::chrono::steady_clock::now() - begun);
    PADDLE_TRY_STATUS(apply(infos));
    pauses = stop_asked_;
  }
  if (pauses) {
    if (const auto met = meet(Wish::kMeet); !met) return met.error();
  }
  // A job that goes on from a snapshot of this place begins with just this.
  PADDLE_TRY_STATUS(ranks_->settle());
  PADDLE_TRY(Tally all, group_->sum(tally));
  is_paused_ = pauses;
  if (local_) local_->end_pass(pauses ? client::PassEnd::kPause : end);
  client::PassTotals totals = place_.end_pass(std::move(all), pauses);
  // A job that is to stop goes on from a snapshot, or from the cut before.
  if (!place_.is_within_pass()) keep_cut();
  return totals;
}

void GroupClient::tell_others_train(Infos infos, Duration waited) {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < infos.size(); ++rank) {
    if (!infos[rank].out_of_data) ranks.push_back(rank);
  }
  group_->tell_waiting(ranks, waited);
}

Result<bool> GroupClient::is_any(bool own) {
  PADDLE_TRY(const Infos infos, meet(Wish::kAsk, {.out_of_data = own}));
  return std::ranges::any_of(infos, &collective::StepInfo::out_of_data);
}

Status GroupClient::announce_busy(std::string_view activity) {
  is_busy_ = true;
  group_->set_activity(activity);
  group_->serve_in_background();
  return {};
}

// Until all have met here, another rank may still save what it holds. A loss after that is
// harmless.
Status GroupClient::leave() {
  if (const auto met = meet(Wish::kMeet); !met) return met.error();
  Status left = group_->leave(std::chrono::steady_clock::now() + kLeaveMax);
  if (left || left.error().code != Errc::kUnreachable) return left;
  log_info("the job is over: {}", left.error().message);
  return {};
}

}  // namespace paddle::strategy
