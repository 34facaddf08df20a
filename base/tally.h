// Additive counters of evaluators, summed over examples, threads, batches and trainers.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/score_histogram.h"

namespace paddle {

// The largest number of counts and sums together, in one job: 512 KiB.
constexpr std::size_t kTallyEntriesMax = 1U << 16U;
// The largest number of score histograms in one job: 2.5 MiB.
constexpr std::size_t kTallyHistogramsMax = 8;
constexpr std::size_t kTallyBytesMax =
    kTallyEntriesMax * sizeof(std::uint64_t) + kTallyHistogramsMax * ScoreHistogram::kBytesMax;

struct Tally {
  std::vector<std::uint64_t> counts;
  std::vector<double> sums;
  std::vector<ScoreHistogram> histograms = {};

  // Adds entry by entry. REQUIRES: the shapes are equal, or this tally is empty.
  void add(const Tally& other);
  bool same_shape(const Tally& other) const {
    return counts.size() == other.counts.size() && sums.size() == other.sums.size() &&
           histograms.size() == other.histograms.size();
  }
  bool empty() const { return counts.empty() && sums.empty() && histograms.empty(); }
  // The largest number of bytes that encode() returns for a tally of this shape.
  std::size_t bytes_max() const {
    return (counts.size() + sums.size()) * sizeof(std::uint64_t) +
           histograms.size() * ScoreHistogram::kBytesMax;
  }
};

// Counts as u64, then sums as f64, little-endian; then the histograms.
Bytes encode(const Tally& tally);
// Decodes a tally with these numbers of counts, sums and histograms. kData: `bytes` are malformed
// or have another length, there are more than kTallyEntriesMax counts and sums, or more than
// kTallyHistogramsMax histograms.
Result<Tally> decode_tally(ByteSpan bytes, std::uint64_t counts, std::uint64_t sums,
                           std::uint64_t histograms = 0);

}  // namespace paddle
