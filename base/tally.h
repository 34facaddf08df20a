// Additive counters of evaluators, summed over examples, threads, batches and trainers.
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

  // Adds entry by entry. The shapes must be equal, or this tally empty.
  void add(const Tally& other);
  bool same_shape(const Tally& other) const {
    return counts.size() == other.counts.size() && sums.size() == other.sums.size();
  }
  bool empty() const { return counts.empty() && sums.empty(); }
};

// Counts as u64, then sums as f64, little-endian.
Bytes encode(const Tally& tally);
// kData unless the bytes are exactly these counts and sums, at most kTallyEntriesMax in all.
Result<Tally> decode_tally(ByteSpan bytes, std::uint64_t counts, std::uint64_t sums);

}  // namespace paddle
