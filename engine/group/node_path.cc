#include "engine/group/node_path.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/log.h"
#include "base/rng.h"

namespace paddle::strategy {
namespace {

// Limit for the other trainers, which have ended the job too, to close their connections.
constexpr Duration kPathLeaveMax = std::chrono::seconds(30);
// Number of buckets whose sums run while an earlier one is gathered.
constexpr std::size_t kSumsAhead = 2;

}  // namespace

NodePath::NodePath(client::ShardChannels& shards, std::unique_ptr<collective::Group> group,
                   std::uint32_t trainer)
    : Path(shards),
      trainer_(trainer),
      gradients_(shards.parameters(), group->size()),
      group_(std::move(group)),
      plan_hash_(stable_hash(shards.parameters().SerializeAsString())) {
  gradients_.allocate(*group_);
}

Status NodePath::pull(std::span<client::DenseParameter> parameters) {
  PADDLE_TRY_STATUS(shards_.pull(parameters));
  return gradients_.place(parameters);
}

std::optional<std::uint32_t> NodePath::leader_of(Infos infos) {
  const auto found = std::ranges::find(infos, false, &collective::StepInfo::out_of_data);
  if (found == infos.end()) return std::nullopt;
  return static_cast<std::uint32_t>(found - infos.begin());
}

Result<NodePath::Infos> NodePath::sum(collective::StepInfo own) {
  if (std::exchange(is_busy_, false)) group_->set_activity("");
  own.step = step_++;
  own.plan_hash = plan_hash_;
  const std::span<float> carried = gradients_.carried();
  const bool sums = shards_.parameters().merge() == wire::MERGE_SUM;
  PADDLE_TRY(
      const Infos infos,
      group_->begin_step(own, carried, sums ? &collective::sum_shares : &collective::mean_shares));
  if (carried.empty() && leader_of(infos)) PADDLE_TRY_STATUS(sum_buckets(infos));
  return infos;
}

Status NodePath::sum_buckets(Infos infos) {
  const bool sums = shards_.parameters().merge() == wire::MERGE_SUM;
  const auto shares = sums ? collective::sum_shares(infos) : collective::mean_shares(infos);
  const std::size_t count = gradients_.layout().buckets();
  std::vector<collective::Pending> reduced(count);
  std::vector<collective::Pending> gathered;
  const auto post = [&](std::size_t number) {
    if (number < count) {
      reduced[number] = group_->reduce_scatter(gradients_.bucket(number), shares);
    }
  };
  for (std::size_t i = 0; i < kSumsAhead; ++i) post(i);
  for (std::size_t i = 0; i < count; ++i) {
    PADDLE_TRY_STATUS(reduced[i].wait());  // an error ends all of them
    gathered.push_back(group_->all_gather(gradients_.bucket(i)));
    post(i + kSumsAhead);
  }
  for (collective::Pending& one : gathered) PADDLE_TRY_STATUS(one.wait());
  return {};
}

// A shard would see a bad gradient only as part of the sum, without knowing whose it is.
Status NodePath::check(const std::string& above) {
  if (above.empty()) return {};
  const std::uint64_t batch = shards_.dense().lanes().at(0).last_applied() + 1;
  Error why{Errc::kFailed,
            fmt::format("trainer {} pushed a gradient of '{}' that is not finite, or would make "
                        "its values so (batch {})",
                        trainer_, above, batch),
            "lower the learning rate, or check the data of this batch"};
  group_->abort(why);
  return why;
}

Status NodePath::push(const client::PushTotals& totals,
                      std::span<client::DenseParameter> parameters) {
  PADDLE_TRY(const std::string above, gradients_.take(parameters));
  PADDLE_TRY_STATUS(check(above));
  PADDLE_TRY(const Infos infos, sum({.samples = totals.samples}));
  const std::uint32_t leader = *leader_of(infos);  // this trainer has data
  const bool leads = leader == group_->rank();
  client::PushTotals own = totals;
  own.node_samples = leads ? collective::total_samples(infos) : 0;
  PADDLE_TRY_STATUS(shards_.push(own, leads ? parameters : std::span<client::DenseParameter>()));
  return spread(leader, parameters);
}

Status NodePath::spread(std::uint32_t leader, std::span<client::DenseParameter> parameters) {
  std::vector<client::DenseParameter*> by_index(
      static_cast<std::size_t>(shards_.parameters().parameters_size()));
  for (client::DenseParameter& one : parameters) by_index[one.parameter] = &one;
  std::vector<collective::Pending> pending;
  for (const std::uint32_t index : gradients_.layout().dense()) {
    const std::size_t size = gradients_.layout().parameter(index).size();
    client::DenseParameter* const one = by_index[index];
    if (one == nullptr) {
      for (const collective::Pending& before : pending) PADDLE_TRY_STATUS(before.wait());
      unused_.resize(size);
    } else {
      one->value.resize(size);
    }
    const auto place = one == nullptr ? std::span<float>(unused_) : std::span<float>(one->value);
    pending.push_back(group_->broadcast(leader, std::as_writable_bytes(place)));
  }
  for (const collective::Pending& one : pending) PADDLE_TRY_STATUS(one.wait());
  return {};
}

Status NodePath::take_part() {
  for (;;) {
    PADDLE_TRY(const Infos infos, sum({.out_of_data = true}));
    const auto leader = leader_of(infos);
    if (!leader) return {};
    PADDLE_TRY_STATUS(spread(*leader, {}));
  }
}

void NodePath::announce_busy(std::string_view activity) {
  is_busy_ = true;
  group_->set_activity(activity);
  group_->serve_in_background();
}

// Until all trainers of the node have reached this barrier, one of them may still save. If a
// trainer is lost after it, the shards decide what that means.
Status NodePath::leave() {
  Status left = group_->barrier();
  if (left) left = group_->leave(std::chrono::steady_clock::now() + kPathLeaveMax);
  if (left || left.error().code != Errc::kUnreachable) return left;
  log_info("the job is over: {}", left.error().message);
  return {};
}

}  // namespace paddle::strategy
