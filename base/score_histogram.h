// How often each score was given to an example of class 0 and of class 1: all that the ROC curve,
// the curve of precision and recall and their areas need. Histograms of parts of the data add up to
// that of all data.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace paddle {

// Counts by score. A score is stored as an integer key that sorts as the scores do. Up to
// entries_max different keys have a count each, so the area is exact. With more keys, neighbours
// share a count: every key loses its low `shift` bits, the fewest that leave at most entries_max
// keys. That number depends on the set of keys alone, not on the order in which they arrived. So a
// sum of histograms has the same bits whatever the order of its parts, and its memory is bounded.
class ScoreHistogram {
 public:
  static constexpr std::size_t kEntriesMax = 1U << 14U;

  struct Entry {
    std::uint32_t key = 0;
    std::array<std::uint64_t, 2> counts{};  // counts of class 0 and class 1
    friend bool operator==(const Entry&, const Entry&) = default;
  };

  explicit ScoreHistogram(std::size_t entries_max = kEntriesMax) : entries_max_(entries_max) {}

  // Counts examples: the high 32 bits of each are its key, the low bit is its class, 0 or 1. Sorts
  // `examples`.
  void add(std::span<std::uint64_t> examples);
  // Adds the counts of `other`. Afterwards the smaller entries_max of both applies.
  void add(const ScoreHistogram& other);

  // The entries by rising key. An entry's key is the key of its scores without the low shift()
  // bits.
  std::span<const Entry> entries() const { return entries_; }
  unsigned shift() const { return shift_; }
  bool empty() const { return entries_.empty(); }
  // Appends the histogram's part of an encoded Tally: shift and number of entries as u64, then the
  // keys as u32, then the counts as pairs of u64.
  void append_to(Bytes& bytes) const;
  // Decodes the histogram at the front of `bytes` and removes it from them. kData: there is no
  // valid one.
  static Result<ScoreHistogram> take(ByteSpan& bytes);
  static constexpr std::size_t kHeadBytes = 2 * sizeof(std::uint64_t);
  static constexpr std::size_t kEntryBytes = sizeof(std::uint32_t) + 2 * sizeof(std::uint64_t);
  static constexpr std::size_t kBytesMax = kHeadBytes + kEntriesMax * kEntryBytes;

  friend bool operator==(const ScoreHistogram& a, const ScoreHistogram& b) {
    return a.shift_ == b.shift_ && a.entries_ == b.entries_;
  }

 private:
  // Makes room: drops low bits until entries_ has at most entries_max_.
  void fit();
  void drop_bits(unsigned shift);
  // Adds entries whose keys are shifted by shift_ and rise.
  void merge(std::span<const Entry> added);

  std::size_t entries_max_;
  unsigned shift_ = 0;
  std::vector<Entry> entries_;
};

// The key of any float. NaN has the lowest key; both zeros have the same.
std::uint32_t score_key(float score);
// The key of a probability, with the same resolution near 1 as near 0. Numbers outside [0, 1] count
// as the nearer of 0 and 1, NaN as 0.
std::uint32_t probability_key(float probability);
// The probability with this key: the same float; for a key without its low `shift` bits, the middle
// of those that share it.
double probability_of_key(std::uint32_t key, unsigned shift = 0);

// The area under the ROC curve: the share of pairs of both classes in which class 1 has the higher
// score, pairs of equal scores counting half. NaN where one class has no example.
double area_under_curve(const ScoreHistogram& scores);
// The area under the curve of precision and recall as scikit-learn's average_precision_score: the
// mean of the precisions at the scores of class 1. NaN where class 1 has no example.
double average_precision(const ScoreHistogram& scores);

// Curves to draw: points (x, y) by rising x, some of those that scikit-learn's functions return,
// the first and the last among them. Empty where the function above is NaN.
using CurvePoints = std::vector<std::pair<double, double>>;

// x: share of class 0 with a score at or above a threshold; y: that of class 1. Points are at least
// 0.02 apart, as the sum of both differences.
CurvePoints roc_curve(const ScoreHistogram& scores);
// x: recall; y: precision. Points are at least 0.02 of recall apart.
CurvePoints precision_recall_curve(const ScoreHistogram& scores);
// x: mean probability; y: share of class 1, in each of up to `bins` bins of about equally many
// examples, as scikit-learn's calibration_curve(strategy="quantile"). The keys must be those of
// probability_key().
CurvePoints calibration_curve(const ScoreHistogram& scores, std::size_t bins);

}  // namespace paddle
