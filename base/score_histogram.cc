#include "base/score_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

#include <fmt/format.h>

namespace paddle {
namespace {

constexpr unsigned kKeyBits = 32;
// Upper limit of a count, so that sums over all trainers fit 64 bits.
constexpr std::uint64_t kCountMax = std::uint64_t{1} << 48U;

template <class T>
T take_number(ByteSpan& bytes) {
  T number{};
  std::memcpy(&number, bytes.data(), sizeof(T));
  bytes = bytes.subspan(sizeof(T));
  return number;
}

Error damaged(const char* what) {
  return {Errc::kData, fmt::format("a histogram of scores is damaged: {}", what), ""};
}

}  // namespace

void ScoreHistogram::add(std::span<std::uint64_t> examples) {
  std::ranges::sort(examples);
  std::vector<Entry> added;
  for (const std::uint64_t example : examples) {
    const auto key = static_cast<std::uint32_t>(example >> kKeyBits) >> shift_;
    if (added.empty() || added.back().key != key) added.push_back({.key = key});
    ++added.back().counts[example & 1U];
  }
  merge(added);
}

void ScoreHistogram::add(const ScoreHistogram& other) {
  entries_max_ = std::min(entries_max_, other.entries_max_);
  if (other.shift_ > shift_) drop_bits(other.shift_);
  if (other.shift_ == shift_) return merge(other.entries_);
  ScoreHistogram coarser = other;
  coarser.drop_bits(shift_);
  merge(coarser.entries_);
}

void ScoreHistogram::merge(std::span<const Entry> added) {
  if (added.empty()) return fit();
  std::vector<Entry> all;
  all.reserve(entries_.size() + added.size());
  std::ranges::merge(entries_, added, std::back_inserter(all), {}, &Entry::key, &Entry::key);
  entries_.swap(all);
  drop_bits(shift_);
  fit();
}

void ScoreHistogram::fit() {
  while (entries_.size() > entries_max_) drop_bits(shift_ + 1);
}

// Also combines entries with the same key, which merge() produces.
void ScoreHistogram::drop_bits(unsigned shift) {
  const unsigned more = shift - shift_;
  shift_ = shift;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    Entry entry = entries_[i];
    entry.key >>= more;
    if (kept > 0 && entries_[kept - 1].key == entry.key) {
      entries_[kept - 1].counts[0] += entry.counts[0];
      entries_[kept - 1].counts[1] += entry.counts[1];
    } else {
      entries_[kept++] = entry;
    }
  }
  entries_.resize(kept);
}

void ScoreHistogram::append_to(Bytes& bytes) const {
  const std::array<std::uint64_t, 2> head{shift_, entries_.size()};
  append_bytes(bytes, std::span<const std::uint64_t>(head));
  std::vector<std::uint32_t> keys;
  std::vector<std::uint64_t> counts;
  for (const Entry& entry : entries_) {
    keys.push_back(entry.key);
    counts.insert(counts.end(), entry.counts.begin(), entry.counts.end());
  }
  append_bytes(bytes, std::span<const std::uint32_t>(keys));
  append_bytes(bytes, std::span<const std::uint64_t>(counts));
}

Result<ScoreHistogram> ScoreHistogram::take(ByteSpan& bytes) {
  if (bytes.size() < kHeadBytes) return damaged("its header is missing");
  const auto shift = take_number<std::uint64_t>(bytes);
  const auto count = take_number<std::uint64_t>(bytes);
  if (shift >= kKeyBits || count > kEntriesMax || bytes.size() < count * kEntryBytes)
    return damaged("its length does not match its header");
  ScoreHistogram taken;
  taken.shift_ = static_cast<unsigned>(shift);
  taken.entries_.resize(count);
  for (Entry& entry : taken.entries_) entry.key = take_number<std::uint32_t>(bytes);
  for (Entry& entry : taken.entries_) {
    for (std::uint64_t& one : entry.counts) one = take_number<std::uint64_t>(bytes);
  }
  const std::uint32_t key_max = std::numeric_limits<std::uint32_t>::max() >> shift;
  for (std::size_t i = 0; i < count; ++i) {
    const Entry& entry = taken.entries_[i];
    const bool is_rising = i == 0 || taken.entries_[i - 1].key < entry.key;
    if (!is_rising || entry.key > key_max) return damaged("its scores are not in ascending order");
    const auto [zero, one] = entry.counts;
    if (zero > kCountMax || one > kCountMax || zero + one == 0)
      return damaged("its counts are out of range");
  }
  return taken;
}

std::uint32_t score_key(float score) {
  constexpr std::uint32_t kSign = 0x80000000U;
  if (std::isnan(score)) return 0;
  const auto bits = std::bit_cast<std::uint32_t>(score == 0 ? 0.0F : score);
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

// 1 - p is exact in float for p above 0.5.
std::uint32_t probability_key(float probability) {
  if (!(probability > 0)) return 0;
  const float p = std::min(probability, 1.0F);
  constexpr auto kHalf = std::bit_cast<std::uint32_t>(0.5F);
  if (p <= 0.5F) return std::bit_cast<std::uint32_t>(p);
  return 2 * kHalf - std::bit_cast<std::uint32_t>(1.0F - p);
}

double probability_of_key(std::uint32_t key, unsigned shift) {
  constexpr auto kHalf = std::bit_cast<std::uint32_t>(0.5F);
  const std::uint32_t middle = (key << shift) + (shift == 0 ? 0 : std::uint32_t{1} << (shift - 1));
  if (middle <= kHalf) return std::bit_cast<float>(middle);
  return 1.0 - static_cast<double>(std::bit_cast<float>(2 * kHalf - std::min(middle, 2 * kHalf)));
}

double area_under_curve(const ScoreHistogram& scores) {
  double zeros = 0;
  double ones = 0;
  double right = 0;
  for (const ScoreHistogram::Entry& entry : scores.entries()) {
    const auto zero = static_cast<double>(entry.counts[0]);
    const auto one = static_cast<double>(entry.counts[1]);
    right += one * (zeros + zero / 2);
    zeros += zero;
    ones += one;
  }
  if (zeros == 0 || ones == 0) return std::numeric_limits<double>::quiet_NaN();
  return right / (zeros * ones);
}

namespace {

constexpr double kPointsApart = 0.02;

// Numbers of examples of class 0 and of class 1.
std::array<double, 2> totals_of(const ScoreHistogram& scores) {
  std::array<double, 2> totals{};
  for (const ScoreHistogram::Entry& entry : scores.entries()) {
    totals[0] += static_cast<double>(entry.counts[0]);
    totals[1] += static_cast<double>(entry.counts[1]);
  }
  return totals;
}

// Calls `use(zeros, ones)` for each score that class 0 or class 1 has, from the highest: numbers of
// examples with that score or a higher one.
template <class Use>
void for_thresholds(const ScoreHistogram& scores, const Use& use) {
  double zeros = 0;
  double ones = 0;
  const auto entries = scores.entries();
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    zeros += static_cast<double>(entry->counts[0]);
    ones += static_cast<double>(entry->counts[1]);
    use(zeros, ones);
  }
}

}  // namespace

double average_precision(const ScoreHistogram& scores) {
  const double all = totals_of(scores)[1];
  if (all == 0) return std::numeric_limits<double>::quiet_NaN();
  double sum = 0;
  double before = 0;
  for_thresholds(scores, [&](double zeros, double ones) {
    sum += (ones - before) * ones / (zeros + ones);
    before = ones;
  });
  return sum / all;
}

CurvePoints roc_curve(const ScoreHistogram& scores) {
  const auto [all_zeros, all_ones] = totals_of(scores);
  if (all_zeros == 0 || all_ones == 0) return {};
  CurvePoints points{{0, 0}};
  for_thresholds(scores, [&](double zeros, double ones) {
    const double x = zeros / all_zeros;
    const double y = ones / all_ones;
    const bool is_last = zeros == all_zeros && ones == all_ones;
    const double from_last = x - points.back().first + (y - points.back().second);
    if (is_last || from_last >= kPointsApart) points.emplace_back(x, y);
  });
  return points;
}

CurvePoints precision_recall_curve(const ScoreHistogram& scores) {
  const double all = totals_of(scores)[1];
  if (all == 0) return {};
  CurvePoints points{{0, 1}};
  for_thresholds(scores, [&](double zeros, double ones) {
    const double recall = ones / all;
    const double from_last = recall - points.back().first;
    const bool is_last = ones == all && from_last > 0;
    if (is_last || from_last >= kPointsApart) points.emplace_back(recall, ones / (zeros + ones));
  });
  return points;
}

// The edges between the bins are percentiles of the probabilities with linear interpolation; an
// edge belongs to the bin below it.
CurvePoints calibration_curve(const ScoreHistogram& scores, std::size_t bins) {
  const auto entries = scores.entries();
  std::uint64_t examples = 0;
  for (const ScoreHistogram::Entry& entry : entries) examples += entry.counts[0] + entry.counts[1];
  if (examples == 0) return {};
  std::vector<double> edges;
  std::size_t entry = 0;
  std::uint64_t end = entries[0].counts[0] + entries[0].counts[1];  // of the examples up to `entry`
  const auto probability = [&](std::size_t at) {
    return probability_of_key(entries[at].key, scores.shift());
  };
  for (std::size_t bin = 1; bin < bins; ++bin) {
    const std::uint64_t parts = (examples - 1) * bin;
    const std::uint64_t below = parts / bins;  // its place among the sorted examples
    while (end <= below) {
      ++entry;
      end += entries[entry].counts[0] + entries[entry].counts[1];
    }
    const double low = probability(entry);
    const double part = static_cast<double>(parts % bins) / static_cast<double>(bins);
    const bool is_between = end == below + 1 && part > 0;
    edges.push_back(is_between ? low + (probability(entry + 1) - low) * part : low);
  }
  std::vector<std::array<double, 3>> sums(bins);  // probabilities, ones, examples
  std::size_t bin = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const double p = probability(i);
    while (bin < edges.size() && edges[bin] < p) ++bin;
    const auto count = static_cast<double>(entries[i].counts[0] + entries[i].counts[1]);
    sums[bin][0] += p * count;
    sums[bin][1] += static_cast<double>(entries[i].counts[1]);
    sums[bin][2] += count;
  }
  CurvePoints points;
  for (const auto& [sum, ones, count] : sums) {
    if (count > 0) points.emplace_back(sum / count, ones / count);
  }
  return points;
}

}  // namespace paddle
