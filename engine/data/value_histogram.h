// How often each number of a column occurs, in bounded memory, for its quantiles.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
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
//
// The first keys are a list. More of them are in a hash table with room for somewhat more than
// distinct_max different ones, so that bits are dropped seldom and several at a time; keys() drops
// those that are still too many.
class ValueHistogram {
 public:
  // REQUIRES: distinct_max is from 2 to 2^30.
  explicit ValueHistogram(std::size_t distinct_max);

  // REQUIRES: the numbers are finite.
  void add(std::span<const float> numbers);
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
  void add(const Keys& keys);

 private:
  // The bits of positive numbers sort as the numbers do; those of negative numbers, inverted, sort
  // before them.
  static std::uint32_t key_of(float number) {
    constexpr std::uint32_t kSignBit = 1U << 31U;
    const auto bits = std::bit_cast<std::uint32_t>(number + 0.0F);  // -0 becomes 0
    return (bits & kSignBit) != 0 ? ~bits : bits | kSignBit;
  }
  static float number_of(std::uint32_t key, unsigned dropped_bits);

  // Linear probing: an entry is at or after the place that its hash gives it.
  struct Place {
    std::uint32_t key = 0, count = 0;  // without its dropped bits; count 0: free
  };
  std::size_t home_of(std::uint32_t key) const {
    return (key * 0x9e3779b1U) >> hash_shift_;  // the golden ratio
  }
  void prefetch(std::uint32_t key) const { __builtin_prefetch(&table_[home_of(key)], 1); }
  Place& find(std::uint32_t key);
  void count(std::uint32_t key, std::uint64_t count);
  void make_table();
  void make_room();
  std::vector<Place> set_size(std::size_t size);
  void drop_bits(unsigned bits, std::span<const std::uint64_t> pairs);
  const std::vector<std::uint64_t>& sorted_pairs() const;
  static std::size_t used_max_of(std::size_t size) { return size / 4 * 3; }

  std::size_t distinct_max_, size_max_;  // size_max_: of the table
  unsigned dropped_bits_ = 0;
  std::vector<std::uint32_t> first_;  // keys of the first numbers, until there is a table
  std::vector<Place> table_;          // a power of two of places
  unsigned hash_shift_ = 0;
  std::size_t used_ = 0;                            // places
  std::map<std::uint32_t, std::uint64_t> carried_;  // by key, what did not fit into its count
};

// The quantiles of the entries' numbers and of `fills` more numbers that all equal `fill`, as
// numpy.percentile(x, numpy.linspace(0, 100, count + 1)) has them. REQUIRES: there is a number.
std::vector<double> quantiles(std::span<const ValueHistogram::Entry> entries, std::uint64_t fills,
                              double fill, std::uint32_t count);

}  // namespace paddle::data
