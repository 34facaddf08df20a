// How often each score was given to an example of class 0 and of class 1, by group: a user, a
// query. It is all that the mean of the groups' AUCs needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

#include "base/bytes.h"
#include "base/result.h"
#include "base/score_histogram.h"

namespace paddle {

// A histogram for each group, in bounded memory. A group counts its examples up to group_max().
// While the sum of these counts is at most examples_max(), all groups are kept. Above it, half of
// the groups are left out, as often as needed: those with a 1 among the highest level() bits of
// mix64 of their number. So the groups that stay are whole, are a random sample, and depend only on
// the set of all examples. A sum has the same bits whatever the order of its parts.
class GroupedScores {
 public:
  static constexpr std::size_t kExamplesMax = 1U << 20U;
  // In an encoded Tally, and in training.
  static constexpr std::size_t kSentMax = 1U << 12U;

  struct Example {
    std::uint64_t group = 0;
    std::uint64_t score = 0;  // as in ScoreHistogram::add: the key above, the class below
    friend auto operator<=>(const Example&, const Example&) = default;
  };

  explicit GroupedScores(std::size_t examples_max = kExamplesMax) : examples_max_(examples_max) {}

  // Counts examples, and uses the span as scratch memory.
  void add(std::span<Example> examples);
  // Adds the counts of `other`. Afterwards the smaller examples_max() of both applies.
  void add(const GroupedScores& other);

  std::size_t examples_max() const { return examples_max_; }
  // The largest number of different scores that a group has; above it, neighbours share a count.
  std::size_t group_max() const;
  unsigned level() const { return level_; }
  std::size_t groups() const { return groups_.size(); }
  bool empty() const { return groups_.empty(); }
  // The mean of the AUCs of the groups that have both classes, weighted by their numbers of
  // examples. NaN: no group has both.
  double mean_area() const;

  // Appends its part of an encoded Tally, limited to kSentMax examples: level and number of groups
  // as u64, then for each group, by rising mix64 of its number, that number and its histogram.
  void append_to(Bytes& bytes) const;
  // Decodes what append_to() wrote at the front of `bytes` and removes it from them. kData: there
  // is nothing valid.
  static Result<GroupedScores> take(ByteSpan& bytes);
  static constexpr std::size_t kHeadBytes = 2 * sizeof(std::uint64_t);
  static constexpr std::size_t kGroupBytes = sizeof(std::uint64_t) + ScoreHistogram::kHeadBytes;
  static constexpr std::size_t kBytesMax =
      kHeadBytes + kSentMax * (kGroupBytes + ScoreHistogram::kEntryBytes);

  friend bool operator==(const GroupedScores& a, const GroupedScores& b) {
    return a.level_ == b.level_ && a.groups_ == b.groups_;
  }

 private:
  struct Group {
    ScoreHistogram scores;
    std::uint64_t examples = 0;
    friend bool operator==(const Group&, const Group&) = default;
  };
  using Groups = std::map<std::uint64_t, Group>;  // by mix64 of their numbers

  bool keeps(std::uint64_t hash) const { return level_ == 0 || hash >> (64U - level_) == 0; }
  std::uint64_t counted(const Group& group) const;
  // Adds `scores` of this many examples to a group.
  void add_to(std::uint64_t hash, const ScoreHistogram& scores, std::uint64_t examples);
  void limit(std::size_t examples_max);
  void drop_groups(unsigned level);
  // Leaves groups out until at most examples_max_ examples are counted.
  void fit();

  std::size_t examples_max_;
  unsigned level_ = 0;
  std::uint64_t counted_ = 0;  // the sum of counted() over the groups
  Groups groups_;
};

}  // namespace paddle
