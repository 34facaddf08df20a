// collective: dense parameters live in the trainers, which add gradients up among themselves
// (group_client.h). A shard sees nothing of it.
#include "engine/strategy/strategy_table.h"
#include "engine/strategy/sync.h"

namespace paddle::strategy {

const Strategy kCollective{"collective", wire::STRATEGY_COLLECTIVE, make_policy<SyncUpdates>,
                           nullptr, nullptr};

}  // namespace paddle::strategy
