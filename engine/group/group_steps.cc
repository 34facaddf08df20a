#include "engine/group/group_steps.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "engine/math/schedule.h"
#include "engine/table/parameter_set.h"

namespace paddle::strategy {
namespace {

Status check_samples(std::uint64_t samples) {
  if (samples <= parameter::kCounterMax) return {};
  return Error{Errc::kUsage,
               fmt::format("a batch has {} samples, which exceeds the limit", samples)};
}

// `above` is the name of a parameter with a gradient that is too large, or "".
Status check_push(std::uint32_t rank, std::uint64_t batch, const client::PushTotals& totals,
                  const std::string& above) {
  if (!above.empty()) {
    return Error{Errc::kFailed,
                 fmt::format("trainer {} pushed a gradient of '{}' that is not finite, or would "
                             "make its values so (batch {})",
                             rank, above, batch),
                 "lower the learning rate, or check the data of this batch"};
  }
  if (!std::isfinite(totals.cost)) {
    return Error{Errc::kFailed,
                 fmt::format("trainer {} pushed a cost of {} (batch {})", rank, totals.cost, batch),
                 "lower the learning rate, or check the data of this batch"};
  }
  return check_samples(totals.samples);
}

}  // namespace

GroupSteps::GroupSteps(GroupRank& rank, GroupState& state, GroupRecovery& recovery)
    : rank_(rank),
      state_(state),
      recovery_(recovery),
      shares_(rank.set.merge() == wire::MERGE_SUM ? &collective::sum_shares
                                                  : &collective::mean_shares) {}

Status GroupSteps::begin_push(std::uint64_t num_samples) {
  if (rank_.local || !rank_.dense->begins_early()) return {};
  if (const Status checked = check_samples(num_samples); !checked)
    return rank_.fail(checked.error());
  PADDLE_TRY(const Infos infos, meet_for_step({.samples = num_samples}));
  begun_push_.assign(infos.begin(), infos.end());
  if (collective::total_samples(infos) == 0) return {};
  if (infos.size() == 1) {
    is_updated_ = true;
    return update(infos);
  }
  const Status begun = rank_.dense->begin_sum(shares_(infos));
  return begun ? begun : rank_.fail(begun.error());
}

Status GroupSteps::push(const client::PushTotals& totals, std::span<client::DenseParameter> dense) {
  if (!rank_.local) return make_step(totals, dense);
  rank_.local->add(totals, rank_.progress.begun, dense);
  if (!rank_.local->is_round_due()) return {};
  PADDLE_TRY_STATUS(push_moves());
  rank_.local->copy_to(dense);
  return {};
}

Result<bool> GroupSteps::end_pass(client::PassEnd end) {
  bool pauses = end == client::PassEnd::kPause;
  if (rank_.local && !rank_.local->is_empty()) {
    PADDLE_TRY_STATUS(push_moves());
    pauses = pauses || stop_asked_;  // as do ranks that have more data after this round
  }
  const TimePoint begun = std::chrono::steady_clock::now();
  while (!pauses) {
    PADDLE_TRY(const Infos infos, meet_for_step({.out_of_data = true}));
    if (std::ranges::all_of(infos, &collective::StepInfo::out_of_data)) return false;
    report_others_training(infos, std::chrono::steady_clock::now() - begun);
    PADDLE_TRY_STATUS(apply(infos));
    pauses = stop_asked_;
  }
  PADDLE_TRY_STATUS(barrier());
  return true;
}

Status GroupSteps::barrier() {
  const auto met = meet(Request::kMeet);
  return met ? Status() : met.error();
}

Result<bool> GroupSteps::is_any(bool own) {
  // No step reads this info, so the field is free for the answer.
  PADDLE_TRY(const Infos infos, meet(Request::kAsk, {.out_of_data = own}));
  return std::ranges::any_of(infos, &collective::StepInfo::out_of_data);
}

Status GroupSteps::gather_state(GroupState::Planes planes, const GroupState::Use& use) {
  const Request own =
      planes == GroupState::Planes::kAverages ? Request::kAverages : Request::kState;
  for (;;) {
    PADDLE_TRY(const Infos infos, make_round(own, {}));
    const std::uint32_t root = *first_state_request(infos);  // not above this rank, which is one
    const bool is_own = root == rank_.number();
    PADDLE_TRY_STATUS(
        state_.gather(root, planes_of(infos[root]), is_own ? use : GroupState::Use()));
    if (is_own) return {};
  }
}

void GroupSteps::announce_busy(std::string_view activity) {
  is_busy_ = true;
  rank_.group->set_activity(activity);
  rank_.group->serve_in_background();
}

Status GroupSteps::push_moves() {
  std::vector<client::DenseParameter> moves = rank_.local->take_moves();
  return make_step(rank_.local->take_totals(), moves);
}

Status GroupSteps::make_step(const client::PushTotals& totals,
                             std::span<client::DenseParameter> dense) {
  PADDLE_TRY(const std::string above, rank_.dense->take(dense));
  const std::uint32_t rank = rank_.number();
  const Status checked = check_push(rank, rank_.progress.cursors[rank] + 1, totals, above);
  if (!checked) return rank_.fail(checked.error());
  if (!begun_push_.empty()) {
    const auto infos = std::exchange(begun_push_, {});
    PADDLE_CHECK(infos[rank].samples == totals.samples);
    rank_.unreported_cost = totals.cost;
    return apply(infos);
  }
  PADDLE_TRY(
      const Infos infos,
      meet_for_step({.samples = totals.samples, .cost = totals.cost, .batches = totals.batches}));
  return apply(infos);
}

Status GroupSteps::apply(Infos infos) {
  if (std::ranges::any_of(infos, &collective::StepInfo::stop)) stop_asked_ = true;
  if (collective::total_samples(infos) > 0) {
    if (!std::exchange(is_updated_, false)) PADDLE_TRY_STATUS(update(infos));
    if (rank_.local) rank_.local->on_round();
  }
  GroupProgress& progress = rank_.progress;
  progress.count(infos);
  ++progress.step;
  if (infos[0].savepoint) recovery_.keep();
  return {};
}

Status GroupSteps::update(Infos infos) {
  const std::uint64_t samples = rank_.progress.samples + collective::total_samples(infos);
  // A move includes the learning rate.
  const float rate =
      rank_.local ? 1
                  : optim::learning_rate(rank_.set.optimizer(), {samples, rank_.progress.passes});
  const Status updated = rank_.dense->update(shares_(infos), rate);
  // The other ranks wait for this one, and must receive its error.
  return updated ? updated : rank_.fail(updated.error());
}

void GroupSteps::report_others_training(Infos infos, Duration waited) const {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < infos.size(); ++rank) {
    if (!infos[rank].out_of_data) ranks.push_back(rank);
  }
  rank_.group->report_waiting(ranks, waited);
}

Result<GroupSteps::Infos> GroupSteps::meet_for_step(collective::StepInfo own) {
  own.stop = asks_to_stop_;
  own.savepoint = recovery_.is_due();
  return meet(Request::kStep, own);
}

Result<GroupSteps::Infos> GroupSteps::meet(Request request, collective::StepInfo own) {
  own.cost += std::exchange(rank_.unreported_cost, 0.0);
  for (;;) {
    PADDLE_TRY(const Infos infos, make_round(request, own));
    const auto root = first_state_request(infos);
    if (!root) {
      PADDLE_TRY_STATUS(check_same(request, infos));
      for (const collective::StepInfo& info : infos) rank_.progress.pass.cost += info.cost;
      return infos;
    }
    std::ranges::copy(kept_, rank_.dense->carried().begin());
    PADDLE_TRY_STATUS(state_.gather(*root, planes_of(infos[*root]), nullptr));
  }
}

Result<GroupSteps::Infos> GroupSteps::make_round(Request request, collective::StepInfo own) {
  // A test or a save is not over when it fetches state.
  const bool ends_work = request < Request::kState;
  if (ends_work && std::exchange(is_busy_, false)) rank_.group->set_activity("");
  own.step = rank_.progress.step;
  own.plan_hash = rank_.plan_hash;
  own.request = static_cast<std::uint32_t>(request);
  const std::span<float> carried = rank_.dense->carried();
  kept_.assign(carried.begin(), carried.end());
  PADDLE_TRY(const Infos infos, rank_.group->begin_step(own, carried, shares_));
  return infos;
}

Status GroupSteps::check_same(Request request, Infos infos) const {
  for (std::uint32_t rank = 0; rank < infos.size(); ++rank) {
    if (infos[rank].request == static_cast<std::uint32_t>(request)) continue;
    return rank_.fail(Error{Errc::kFailed,
                            fmt::format("{} and {} are at different places of the job (step {})",
                                        rank_.group->name(rank), rank_.group->name(rank_.number()),
                                        rank_.progress.step),
                            "this is a bug"});
  }
  return {};
}

std::optional<std::uint32_t> GroupSteps::first_state_request(Infos infos) {
  const auto wants_state = [](const collective::StepInfo& info) {
    return info.request >= static_cast<std::uint32_t>(Request::kState);
  };
  const auto found = std::ranges::find_if(infos, wants_state);
  if (found == infos.end()) return std::nullopt;
  return static_cast<std::uint32_t>(found - infos.begin());
}

GroupState::Planes GroupSteps::planes_of(const collective::StepInfo& info) {
  return info.request == static_cast<std::uint32_t>(Request::kAverages)
             ? GroupState::Planes::kAverages
             : GroupState::Planes::kAll;
}

}  // namespace paddle::strategy
