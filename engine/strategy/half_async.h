// half_async: training continues while a thread of the trainer pushes, and shards apply each push
// at once (async.h).
//
// With one trainer the bits do not depend on time: dense values are refreshed after a window's end
// to those of the window send_queue_size before it, and a pull of rows goes out before the windows
// closed since the last one.
#pragma once

#include "engine/strategy/path_options.h"

namespace paddle::strategy {

DensePathPtr make_half_async_dense(client::ShardChannels& shards, const PathOptions& options);
RowsPathPtr make_half_async_rows(client::ShardChannels& shards, const PathOptions& options);

}  // namespace paddle::strategy
