// How old the values were that a push was computed on: the batches of other trainers, and of merged
// pushes of its own, that the shard applied since it last gave this trainer values or rows.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "proto/wire.pb.h"

namespace paddle::pserver {

// Buckets of a histogram: lag 0, 1, 2-3, 4-7, ...; the last takes all above.
constexpr int kLagBuckets = 16;

inline int lag_bucket(std::uint64_t lag) {
  return std::min(static_cast<int>(std::bit_width(lag)), kLagBuckets - 1);
}

inline void count_push(wire::PassFinished& totals, std::uint64_t batches, std::uint64_t lag) {
  totals.set_pushes(totals.pushes() + 1);
  totals.set_batches(totals.batches() + batches);
  while (totals.lags_size() <= lag_bucket(lag)) totals.add_lags(0);
  totals.set_lags(lag_bucket(lag), totals.lags(lag_bucket(lag)) + 1);
}

}  // namespace paddle::pserver
