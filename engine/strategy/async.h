// The shard's half of async, half_async and geo: every push is an update of its own, applied at
// once or, with staleness_max, when the slowest trainer has caught up.
#pragma once

#include <optional>

#include "engine/pserver/update_policy.h"

namespace paddle::strategy {

class AsyncUpdates : public pserver::UpdatePolicy {
 public:
  explicit AsyncUpdates(const wire::ParameterSet& set);

  bool has_rounds() const override { return false; }
  bool holds_pushes() const override { return staleness_max_.has_value(); }
  std::vector<pserver::Trainer*> next_update(pserver::Membership& membership) const override;
  std::string blockers(const pserver::Membership& membership, std::uint64_t step,
                       bool& all_connected) const override;

 private:
  std::optional<std::uint64_t> staleness_max_;  // batches of a pass ahead of the slowest trainer
};

// async of v0.10: drops a gradient whose lag is async_lagged_grad_discard_ratio times the number of
// trainers. Without staleness_max, which bounds the lag itself.
class DiscardingUpdates final : public AsyncUpdates {
 public:
  explicit DiscardingUpdates(const wire::ParameterSet& set);
  bool discards(std::uint64_t lag) const override;

 private:
  double lag_max_;
};

}  // namespace paddle::strategy
