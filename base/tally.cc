#include "base/tally.h"

#include <cstring>

#include <fmt/format.h>

#include "base/check.h"

namespace paddle {

void Tally::add(const Tally& other) {
  if (empty()) {
    *this = other;
    return;
  }
  PADDLE_CHECK(same_shape(other));
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += other.sums[i];
  for (std::size_t i = 0; i < histograms.size(); ++i) histograms[i].add(other.histograms[i]);
  for (std::size_t i = 0; i < grouped.size(); ++i) grouped[i].add(other.grouped[i]);
}

Bytes encode(const Tally& tally) {
  Bytes bytes;
  append_bytes(bytes, std::span<const std::uint64_t>(tally.counts));
  append_bytes(bytes, std::span<const double>(tally.sums));
  for (const ScoreHistogram& one : tally.histograms) one.append_to(bytes);
  for (const GroupedScores& one : tally.grouped) one.append_to(bytes);
  return bytes;
}

Result<Tally> decode_tally(ByteSpan bytes, std::uint64_t counts, std::uint64_t sums,
                           std::uint64_t histograms, std::uint64_t grouped) {
  const bool is_too_long = counts > kTallyEntriesMax || sums > kTallyEntriesMax - counts ||
                           histograms > kTallyHistogramsMax || grouped > kTallyGroupedMax;
  if (is_too_long || bytes.size() < (counts + sums) * sizeof(std::uint64_t)) {
    return Error{Errc::kData,
                 fmt::format("{} counts, {} sums, {} histograms and {} scores by group do not fit "
                             "{} bytes, or exceed the limits of {} entries, {} and {}",
                             counts, sums, histograms, grouped, bytes.size(), kTallyEntriesMax,
                             kTallyHistogramsMax, kTallyGroupedMax),
                 ""};
  }
  Tally tally;
  tally.counts.resize(counts);
  tally.sums.resize(sums);
  const std::size_t split = counts * sizeof(std::uint64_t);
  if (counts > 0) std::memcpy(tally.counts.data(), bytes.data(), split);
  if (sums > 0) std::memcpy(tally.sums.data(), bytes.data() + split, sums * sizeof(double));
  ByteSpan left = bytes.subspan(split + sums * sizeof(double));
  for (std::uint64_t i = 0; i < histograms; ++i) {
    PADDLE_TRY(ScoreHistogram one, ScoreHistogram::take(left));
    tally.histograms.push_back(std::move(one));
  }
  for (std::uint64_t i = 0; i < grouped; ++i) {
    PADDLE_TRY(GroupedScores one, GroupedScores::take(left));
    tally.grouped.push_back(std::move(one));
  }
  if (left.empty()) return tally;
  return Error{Errc::kData, fmt::format("{} unexpected bytes after the tally", left.size()), ""};
}

}  // namespace paddle
