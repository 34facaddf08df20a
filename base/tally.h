// Additive counters of evaluators, summed over examples, threads, batches and trainers.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/grouped_scores.h"
#include "base/result.h"
#include "base/score_histogram.h"

namespace paddle {

// The largest number of counts and sums together, in one job: 512 KiB.
constexpr std::size_t kTallyEntriesMax = 1U << 16U;
// The largest number of score histograms in one job: 2.5 MiB.
constexpr std::size_t kTallyHistogramsMax = 8;
// The largest number of scores by group in one job: 0.4 MiB.
constexpr std::size_t kTallyGroupedMax = 2;
constexpr std::size_t kTallyBytesMax = kTallyEntriesMax * sizeof(std::uint64_t) +
                                       kTallyHistogramsMax * ScoreHistogram::kBytesMax +
                                       kTallyGroupedMax * GroupedScores::kBytesMax;

struct Tally {
  std::vector<std::uint64_t> counts;
  std::vector<double> sums;
  std::vector<ScoreHistogram> histograms = {};
  std::vector<GroupedScores> grouped = {};

  // Adds entry by entry. REQUIRES: the shapes are equal, or this tally is empty.
  void add(const Tally& other);
  bool same_shape(const Tally& other) const {
    return counts.size() == other.counts.size() && sums.size() == other.sums.size() &&
           histograms.size() == other.histograms.size() && grouped.size() == other.grouped.size();
  }
  bool empty() const {
    return counts.empty() && sums.empty() && histograms.empty() && grouped.empty();
  }
  // The largest number of bytes that encode() returns for a tally of this shape.
  std::size_t bytes_max() const {
    return (counts.size() + sums.size()) * sizeof(std::uint64_t) +
           histograms.size() * ScoreHistogram::kBytesMax +
           grouped.size() * GroupedScores::kBytesMax;
  }
};

// Counts as u64, then sums as f64, little-endian; then the histograms, then the scores by group.
Bytes encode(const Tally& tally);
// Decodes a tally with these numbers of counts, sums, histograms and scores by group. kData:
// `bytes` are malformed or have another length, there are more than kTallyEntriesMax counts and
// sums, more than kTallyHistogramsMax histograms, or more than kTallyGroupedMax scores by group.
Result<Tally> decode_tally(ByteSpan bytes, std::uint64_t counts, std::uint64_t sums,
                           std::uint64_t histograms = 0, std::uint64_t grouped = 0);

}  // namespace paddle
