// How often each number of a column occurs, in bounded memory, for its quantiles.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace paddle::data {

// Counts of float32 numbers. Numbers are stored as integer keys that sort as the numbers do. Up to
// `distinct_max` different numbers are exact. With more, all keys lose the same number of low bits,
// the fewest that leave at most distinct_max different ones.
//
// INVARIANT: the counts are a function of the numbers, not of their order or of the parts that were
// added up: more numbers never need fewer dropped bits, and bits that are dropped later are the
// same bits.
class ValueHistogram {
 public:
  // REQUIRES: distinct_max is from 2 to 2^31.
  explicit ValueHistogram(std::size_t distinct_max);

  // REQUIRES: the number is finite.
  void add(float number) {
    added_.push_back(key_of(number));
    if (added_.size() == added_max_) count_added();
  }
  // REQUIRES: both have the same distinct_max.
  void add(const ValueHistogram& other);

  // Entries by ascending number. A number is the one of its entry that is nearest to 0, so that 0
  // and other numbers of few digits stay as they are.
  struct Entry {
    float number = 0;
    std::uint64_t count = 0;
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  struct Counts {
    std::vector<Entry> entries;
    // The largest of an entry's number, 2^(dropped bits - 23); 0: the numbers are exact.
    double relative_error = 0;
  };
  Counts counts() const;

  // The content in the form of a part: keys ascend, without their dropped bits.
  struct Keys {
    unsigned dropped_bits = 0;
    std::vector<std::uint32_t> keys = {};
    std::vector<std::uint64_t> counts = {};  // of each key; none is 0
  };
  Keys keys() const;
  // Whether keys() of a histogram with this distinct_max can return these.
  static bool are_keys(const Keys& keys, std::size_t distinct_max);
  // Adds the numbers of another histogram with the same distinct_max. REQUIRES: are_keys().
  void add(Keys keys);

 private:
  // The bits of positive numbers sort as the numbers do; those of negative numbers, inverted, sort
  // before them.
  static std::uint32_t key_of(float number) {
    constexpr std::uint32_t kSignBit = 1U << 31U;
    const auto bits = std::bit_cast<std::uint32_t>(number + 0.0F);  // -0 becomes 0
    return (bits & kSignBit) != 0 ? ~bits : bits | kSignBit;
  }
  static float number_of(std::uint32_t key, unsigned dropped_bits);

  void count_added();
  void merge(const Keys& other);
  static void drop_bits(unsigned bits, Keys& keys);

  std::size_t distinct_max_, added_max_;
  Keys counted_;
  std::vector<std::uint32_t> added_;  // keys with all bits that are not counted yet
};

// The quantiles of the entries' numbers and of `fills` more numbers that all equal `fill`, as
// numpy.percentile(x, numpy.linspace(0, 100, count + 1)) has them. REQUIRES: there is a number.
std::vector<double> quantiles(std::span<const ValueHistogram::Entry> entries, std::uint64_t fills,
                              double fill, std::uint32_t count);

}  // namespace paddle::data
