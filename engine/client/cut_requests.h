// A trainer's share in the cuts of shards in rounds: all of them make one after the push that
// follows its announcement, and forget what they can no longer need.
#pragma once

#include <span>

#include "engine/client/lane.h"

namespace paddle::client {

// Says in a push what the lanes to the shards in rounds, the first of which announces cuts, have
// answered last.
void note_cuts(std::span<const ClientLane* const> in_rounds, wire::PushPart& part);

}  // namespace paddle::client
