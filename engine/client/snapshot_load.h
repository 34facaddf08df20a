// Loading of a snapshot directory into the shards: dense parameters whole, sparse tables in chunks
// of bounded size.
#pragma once

#include <string>

#include "engine/client/shard_channels.h"

namespace paddle::client {

// From trainer 0, before Ready. resumes: the job continues where the snapshot was taken.
Status load_snapshot(ShardChannels& shards, const std::string& directory, bool resumes);

}  // namespace paddle::client
