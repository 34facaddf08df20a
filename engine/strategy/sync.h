// The shard's half of sync: an update is a round, with one push of every active trainer. Trainers
// need only the plain client.
#pragma once

#include "engine/pserver/update_policy.h"

namespace paddle::strategy {

class SyncUpdates final : public pserver::UpdatePolicy {
 public:
  explicit SyncUpdates(const wire::ParameterSet& /*set*/) {}

  bool has_rounds() const override { return true; }
  bool holds_pushes() const override { return true; }
  std::vector<pserver::Trainer*> next_update(pserver::Membership& membership) const override;
  pserver::Blockers blockers(const pserver::Membership& membership,
                             std::uint64_t step) const override;
};

}  // namespace paddle::strategy
