// Counters that add up: what evaluators count over examples, threads, batches and trainers.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace paddle {

// Counts and sums together, in one job: 512 KiB.
constexpr std::size_t kTallyEntriesMax = 1U << 16U;

struct Tally {
  std::vector<std::uint64_t> counts;
  std::vector<double> sums;

  // Entry by entry; an empty tally takes the other's shape, any other must have it.
  void add(const Tally& other);
  bool same_shape(const Tally& other) const {
    return counts.size() == other.counts.size() && sums.size() == other.sums.size();
  }
  bool empty() const { return counts.empty() && sums.empty(); }
};

// Counts as u64, then sums as f64, little-endian.
Bytes encode(const Tally& tally);
// kProtocol unless the bytes are so many counts and sums, at most kTallyEntriesMax.
Result<Tally> decode_tally(ByteSpan bytes, std::uint64_t counts, std::uint64_t sums);

}  // namespace paddle
