// How often each score was given to an example of class 0 and of class 1: all that the area under
// the ROC curve needs. Histograms of parts of the data add up to that of all data.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace paddle {

// Scores are keys whose order is theirs. Up to entries_max different ones have a count each, so
// that figures are exact. With more, neighbours share one: every key loses its low `shift` bits, as
// few as make room. How many that are follows from the set of keys alone, not from the order in
// which they came. So a sum has the same bits whatever the order of its parts, and constant memory.
class ScoreHistogram {
 public:
  static constexpr std::size_t kEntriesMax = 1U << 14U;

  struct Entry {
    std::uint32_t key = 0;
    std::array<std::uint64_t, 2> counts{};  // of class 0 and class 1
    friend bool operator==(const Entry&, const Entry&) = default;
  };

  explicit ScoreHistogram(std::size_t entries_max = kEntriesMax) : entries_max_(entries_max) {}

  // Counts examples, each as its key in the high half and its class, 0 or 1, in the low one. Sorts
  // them.
  void add(std::span<std::uint64_t> examples);
  // The smaller entries_max of both holds from then on.
  void add(const ScoreHistogram& other);

  // By rising key; that of a score is its key without the low shift() bits.
  std::span<const Entry> entries() const { return entries_; }
  unsigned shift() const { return shift_; }
  bool empty() const { return entries_.empty(); }
  // The histogram's part of a tally's bytes: shift and entries as u64, then the keys as u32, then
  // the counts as pairs of u64.
  void append_to(Bytes& bytes) const;
  // Takes a histogram from the front of `bytes`. kData: there is none.
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
  // Adds entries of this shift, by rising key.
  void merge(std::span<const Entry> added);

  std::size_t entries_max_;
  unsigned shift_ = 0;
  std::vector<Entry> entries_;
};

// Key of a number: NaN is the lowest, and both zeros are one.
std::uint32_t score_key(float score);
// Key of a probability: as fine near 1 as near 0, since only the distance to the nearer of both
// counts. Other numbers are taken as the nearer of 0 and 1.
std::uint32_t probability_key(float probability);

// The area under the ROC curve: the share of pairs of both classes in which class 1 has the higher
// score, pairs of equal scores counting half. NaN where one class has no example.
double area_under_curve(const ScoreHistogram& scores);

}  // namespace paddle
