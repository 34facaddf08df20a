// Saving of the shards' parameters as a snapshot directory: dense parameters whole, sparse tables
// in chunks of bounded size.
#pragma once

#include <string>

#include "engine/client/shard_channels.h"

namespace paddle::client {

// From trainer 0, between the end of a pass and the next push.
Status save_snapshot(ShardChannels& shards, const std::string& directory);
// Of tables only the difference from `base`, the last full snapshot beside `directory`.
Status save_delta(ShardChannels& shards, const std::string& directory, const std::string& base);

}  // namespace paddle::client
