#include "engine/strategy/sync.h"

#include <fmt/format.h>

#include "engine/strategy/strategy_table.h"

namespace paddle::strategy {

std::vector<pserver::Trainer*> SyncUpdates::next_update(pserver::Membership& membership) const {
  std::vector<pserver::Trainer*> round;
  for (pserver::Trainer& trainer : membership.trainers()) {
    if (!trainer.active()) continue;
    if (!trainer.has_complete_push()) return {};
    round.push_back(&trainer);
  }
  return round;
}

pserver::Blockers SyncUpdates::blockers(const pserver::Membership& /*membership*/,
                                        std::uint64_t step) const {
  return {[](const pserver::Trainer& t) { return t.active() && !t.has_complete_push(); },
          fmt::format(" to push step {}", step)};
}

const Strategy kSync{"sync", wire::STRATEGY_SYNC, make_policy<SyncUpdates>, nullptr, nullptr};

}  // namespace paddle::strategy
