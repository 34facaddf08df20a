// collective: the trainers keep the dense parameters, and add gradients up among themselves
// (group_client.h). Shards take no part in it.
#include "engine/strategy/strategy_table.h"
#include "engine/strategy/sync.h"

namespace paddle::strategy {

const Strategy kCollective{"collective", wire::STRATEGY_COLLECTIVE, make_policy<SyncUpdates>,
                           nullptr, nullptr};

}  // namespace paddle::strategy
