// local_sgd: the trainers keep the dense parameters. Each updates its own copy, and all average
// their copies among themselves (local_rounds.h). Shards take no part in it.
#include "engine/strategy/strategy_table.h"
#include "engine/strategy/sync.h"

namespace paddle::strategy {

const Strategy kLocalSgd{
    "local_sgd", wire::STRATEGY_LOCAL_SGD, make_policy<SyncUpdates>, nullptr, nullptr, true};

}  // namespace paddle::strategy
