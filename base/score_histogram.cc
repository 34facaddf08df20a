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

}  // namespace paddle
