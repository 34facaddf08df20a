#include "engine/strategy/async.h"

#include <fmt/format.h>

#include "engine/strategy/strategy_table.h"

namespace paddle::strategy {

AsyncUpdates::AsyncUpdates(const wire::ParameterSet& set) {
  if (set.has_staleness_max()) staleness_max_ = set.staleness_max();
}

// The slowest trainer's push may always be applied, so no two trainers wait for each other. If
// several pushes may be applied, the slowest trainer's is the first.
std::vector<pserver::Trainer*> AsyncUpdates::next_update(pserver::Membership& membership) const {
  const std::uint64_t slowest = staleness_max_ ? membership.slowest_clock() : 0;
  pserver::Trainer* next = nullptr;
  for (pserver::Trainer& trainer : membership.trainers()) {
    if (!trainer.active() || !trainer.has_complete_push()) continue;
    if (staleness_max_ && trainer.clock - slowest > *staleness_max_) continue;
    if (next == nullptr || trainer.clock < next->clock) next = &trainer;
  }
  if (next == nullptr) return {};
  return {next};
}

pserver::Blockers AsyncUpdates::blockers(const pserver::Membership& membership,
                                         std::uint64_t /*step*/) const {
  const std::uint64_t slowest = membership.slowest_clock();
  return {[slowest](const pserver::Trainer& t) { return t.active() && t.clock == slowest; },
          fmt::format(", still at batch {} of the pass", slowest)};
}

namespace {

constexpr double kDiscardRatioDefault = 1.5;

// async of v0.10: drops a gradient whose lag is async_lagged_grad_discard_ratio times the number of
// trainers, or more. Used without staleness_max, which bounds the lag directly.
class DiscardingUpdates final : public AsyncUpdates {
 public:
  explicit DiscardingUpdates(const wire::ParameterSet& set) : AsyncUpdates(set) {
    const float ratio = set.async_lagged_grad_discard_ratio();
    lag_max_ = (ratio > 0 ? static_cast<double>(ratio) : kDiscardRatioDefault) * set.num_trainers();
  }
  bool discards(std::uint64_t lag) const override { return static_cast<double>(lag) >= lag_max_; }

 private:
  double lag_max_;
};

std::unique_ptr<pserver::UpdatePolicy> make_async_policy(const wire::ParameterSet& set,
                                                         bool is_sparse) {
  if (is_sparse || set.has_staleness_max()) return std::make_unique<AsyncUpdates>(set);
  return std::make_unique<DiscardingUpdates>(set);
}

}  // namespace

const Strategy kAsync{"async", wire::STRATEGY_ASYNC, make_async_policy, nullptr, nullptr};

}  // namespace paddle::strategy
