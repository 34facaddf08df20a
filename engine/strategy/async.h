// The shard's half of async, half_async and geo: every push is an update of its own, applied at
// once or, with staleness_max, after the slowest trainer has caught up.
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
  pserver::Blockers blockers(const pserver::Membership& membership,
                             std::uint64_t step) const override;

 private:
  // How many batches of a pass a trainer may be ahead of the slowest one.
  std::optional<std::uint64_t> staleness_max_;
};

}  // namespace paddle::strategy
