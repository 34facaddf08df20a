// Pushes to a group: rounds of all ranks, and the updates that they lead to.
#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "engine/optim/schedule.h"
#include "engine/parameter/parameter_set.h"
#include "engine/strategy/collective/group_client.h"

namespace paddle::strategy {
namespace {

Status check_samples(std::uint64_t samples) {
  if (samples <= parameter::kCounterMax) return {};
  return Error{Errc::kUsage, fmt::format("{} samples in a batch", samples)};
}

Status check_push(std::uint32_t rank, std::uint64_t batch, const client::PushTotals& totals,
                  const std::string& above) {
  if (!above.empty()) {
    return Error{Errc::kFailed,
                 fmt::format("trainer {} pushed a gradient of '{}' that is not finite, or would "
                             "make its values so (batch {})",
                             rank, above, batch),
                 "lower the learning rate or look at the data of this batch"};
  }
  if (!std::isfinite(totals.cost)) {
    return Error{Errc::kFailed,
                 fmt::format("trainer {} pushed a cost of {} (batch {})", rank, totals.cost, batch),
                 "lower the learning rate or look at the data of this batch"};
  }
  return check_samples(totals.samples);
}

}  // namespace

// The round of the push, which tells all but the cost.
Status GroupClient::begin_push(std::uint64_t num_samples) {
  if (local_ || !ranks_->sums_early()) return {};
  if (const Status checked = check_samples(num_samples); !checked) return fail(checked.error());
  PADDLE_TRY(
      const Infos infos,
      meet(Wish::kStep, {.samples = num_samples, .stop = asks_to_stop_, .cut = wants_cut()}));
  begun_push_.assign(infos.begin(), infos.end());
  if (collective::total_samples(infos) == 0) return {};
  if (const Status begun = ranks_->begin_sum(shares_of(infos)); !begun) return fail(begun.error());
  return {};
}

Status GroupClient::push(std::uint64_t num_samples, double cost_sum,
                         std::span<client::DenseParameter> dense,
                         std::span<client::SparseRows> sparse) {
  if (!sparse.empty()) {
    return Error{Errc::kUsage, "rows are pushed", "a group keeps no sparse tables"};
  }
  const client::PushTotals totals{.samples = num_samples, .cost = cost_sum};
  if (!local_) return push_round(totals, dense);
  local_->add(totals, place_.begun, dense);
  if (!local_->is_round_due()) return {};
  PADDLE_TRY_STATUS(push_moves());
  local_->copy_to(dense);
  return {};
}

Status GroupClient::push_moves() {
  std::vector<client::DenseParameter> moves = local_->take_moves();
  return push_round(local_->take_totals(), moves);
}

Status GroupClient::push_round(const client::PushTotals& totals,
                               std::span<client::DenseParameter> dense) {
  PADDLE_TRY(const std::string above, ranks_->take(dense));
  const std::uint32_t rank = group_->rank();
  const Status checked = check_push(rank, place_.cursors[rank] + 1, totals, above);
  if (!checked) return fail(checked.error());
  if (!begun_push_.empty()) {
    const auto infos = std::exchange(begun_push_, {});
    PADDLE_CHECK(infos[rank].samples == totals.samples);
    cost_untold_ = totals.cost;
    return apply(infos);
  }
  PADDLE_TRY(const Infos infos, meet(Wish::kStep, {.samples = totals.samples,
                                                   .cost = totals.cost,
                                                   .batches = totals.batches,
                                                   .stop = asks_to_stop_,
                                                   .cut = wants_cut()}));
  return apply(infos);
}

std::vector<float> GroupClient::shares_of(Infos infos) const {
  return set_.merge() == wire::MERGE_SUM ? collective::sum_shares(infos)
                                         : collective::mean_shares(infos);
}

// As a shard counts and applies a round of pushes.
Status GroupClient::apply(Infos infos) {
  if (std::ranges::any_of(infos, &collective::StepInfo::stop)) stop_asked_ = true;
  place_.count(infos);
  const auto shares = shares_of(infos);
  const bool has_samples = collective::total_samples(infos) > 0;
  // A move has the learning rate in it.
  const float rate =
      local_ ? 1 : optim::learning_rate(set_.optimizer(), {place_.samples, place_.passes});
  if (has_samples) {
    // The others wait for this rank, and are to hear its own words.
    if (const Status updated = ranks_->update(shares, rate); !updated) return fail(updated.error());
    if (local_) local_->on_round();
  }
  ++place_.step;
  if (infos[0].cut) keep_cut();
  return {};
}

}  // namespace paddle::strategy
