// Factories of the trainer's halves of strategies.
#pragma once

#include "engine/client/paths.h"

namespace paddle::strategy {

struct PathOptions {
  std::uint32_t max_merge = 1;        // half_async: batches of a push
  std::uint32_t send_queue_size = 1;  // half_async: pushes in flight while training continues
};

using DensePathPtr = std::unique_ptr<client::DensePath>;
using RowsPathPtr = std::unique_ptr<client::RowsPath>;

}  // namespace paddle::strategy
