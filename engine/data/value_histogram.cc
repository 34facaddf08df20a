#include "engine/data/value_histogram.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "base/check.h"

namespace paddle::data {
namespace {

constexpr unsigned kKeyBits = 32;
constexpr int kMantissaBits = 23;

constexpr std::size_t kSizeMin = 64;
// A large table is not in the processor's first caches, so a place is asked for this many keys
// ahead.
constexpr std::size_t kAhead = 16;
constexpr std::uint32_t kCountMax = std::numeric_limits<std::uint32_t>::max();

// Sorts pairs of a key, in the high half, and a count by their keys: from the lowest digits to the
// highest, it puts them in the order of one digit and leaves those with the same digit in their
// order.
void sort_by_key(std::vector<std::uint64_t>& pairs) {
  constexpr unsigned kDigitBits = 8, kDigits = kKeyBits / kDigitBits;
  const auto digit_of = [](std::uint64_t pair, unsigned digit) {
    return static_cast<std::uint8_t>(pair >> (kKeyBits + digit * kDigitBits));
  };
  std::array<std::array<std::uint32_t, 1U << kDigitBits>, kDigits> ends{};
  for (const std::uint64_t pair : pairs) {
    for (unsigned digit = 0; digit < kDigits; ++digit) ++ends[digit][digit_of(pair, digit)];
  }
  thread_local std::vector<std::uint64_t> sorted;  // the next histogram uses its memory again
  sorted.resize(pairs.size());
  for (unsigned digit = 0; digit < kDigits; ++digit) {
    // Keys without their dropped bits begin with zeros.
    if (pairs.empty() || ends[digit][digit_of(pairs.front(), digit)] == pairs.size()) continue;
    std::uint32_t end = 0;
    for (std::uint32_t& one : ends[digit]) end += std::exchange(one, end);
    for (const std::uint64_t pair : pairs) sorted[ends[digit][digit_of(pair, digit)]++] = pair;
    pairs.swap(sorted);
  }
}

struct Surplus {
  unsigned bits = 0;
  std::size_t distinct = 0;  // keys without these bits
};

// The fewest low bits without which at most `distinct_max` keys of these sorted pairs differ.
Surplus surplus_of(std::span<const std::uint64_t> pairs, std::size_t distinct_max) {
  std::array<std::size_t, kKeyBits + 1> merged{};  // by bits: neighbours that need them to be equal
  for (std::size_t i = 1; i < pairs.size(); ++i)
    ++merged[static_cast<std::size_t>(std::bit_width((pairs[i - 1] ^ pairs[i]) >> kKeyBits))];
  Surplus surplus{.distinct = pairs.size() - merged[0]};
  while (surplus.distinct > distinct_max) surplus.distinct -= merged[++surplus.bits];
  return surplus;
}

}  // namespace

ValueHistogram::ValueHistogram(std::size_t distinct_max)
    : distinct_max_(distinct_max), size_max_(std::max(2 * std::bit_ceil(distinct_max), kSizeMin)) {
  PADDLE_CHECK(distinct_max >= 2 && distinct_max <= (std::size_t{1} << 30U));
}

float ValueHistogram::number_of(std::uint32_t key, unsigned dropped_bits) {
  const std::uint32_t lowest = key << dropped_bits;
  const std::uint32_t highest = lowest | ((1U << dropped_bits) - 1);
  const bool is_positive = key_of(0) <= lowest;
  return std::bit_cast<float>(is_positive ? lowest ^ key_of(0) : ~highest);
}

void ValueHistogram::add(std::span<const float> numbers) {
  for (; table_.empty() && !numbers.empty(); numbers = numbers.subspan(1)) {
    first_.push_back(key_of(numbers.front()));
    if (first_.size() == used_max_of(size_max_)) make_table();
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (used_ >= used_max_of(table_.size())) make_room();
    if (i + kAhead < numbers.size()) prefetch(key_of(numbers[i + kAhead]) >> dropped_bits_);
    Place& place = find(key_of(numbers[i]) >> dropped_bits_);
    if (++place.count == kCountMax) {
      carried_[place.key] += kCountMax - 1;
      place.count = 1;
    }
  }
}

// The place of a key, which may be a new one. REQUIRES: a place is free.
ValueHistogram::Place& ValueHistogram::find(std::uint32_t key) {
  std::size_t i = home_of(key);
  while (table_[i].count > 0 && table_[i].key != key) i = (i + 1) & (table_.size() - 1);
  Place& place = table_[i];
  if (place.count == 0) {
    place.key = key;
    ++used_;
  }
  return place;
}

// REQUIRES: as for find().
void ValueHistogram::count(std::uint32_t key, std::uint64_t count) {
  Place& place = find(key);
  const std::uint64_t sum = place.count + count;
  place.count = sum < kCountMax ? static_cast<std::uint32_t>(sum) : 1;
  if (sum >= kCountMax) carried_[key] += sum - 1;
}

// Puts the first numbers into a table, which has room for one more.
void ValueHistogram::make_table() {
  const std::vector<std::uint64_t>& pairs = sorted_pairs();
  const Surplus surplus = surplus_of(pairs, distinct_max_);
  set_size(std::clamp(2 * std::bit_ceil(surplus.distinct + 1), kSizeMin, size_max_));
  drop_bits(surplus.bits, pairs);
  first_ = {};
}

void ValueHistogram::make_room() {
  if (table_.size() == size_max_) {
    const std::vector<std::uint64_t>& pairs = sorted_pairs();
    return drop_bits(surplus_of(pairs, distinct_max_).bits, pairs);
  }
  const std::vector<Place> old = set_size(std::min(4 * table_.size(), size_max_));
  for (const Place& place : old) {
    if (place.count > 0) find(place.key).count = place.count;
  }
}

// Makes an empty table, and returns the one before it.
std::vector<ValueHistogram::Place> ValueHistogram::set_size(std::size_t size) {
  hash_shift_ = kKeyBits - static_cast<unsigned>(std::countr_zero(size));
  used_ = 0;
  return std::exchange(table_, std::vector<Place>(size));
}

// `pairs` are sorted_pairs().
void ValueHistogram::drop_bits(unsigned bits, std::span<const std::uint64_t> pairs) {
  const auto carried = std::exchange(carried_, {});
  std::ranges::fill(table_, Place());
  used_ = 0;
  dropped_bits_ += bits;
  for (std::size_t i = 0; i < pairs.size();) {
    const std::uint64_t key = pairs[i] >> kKeyBits >> bits;
    std::uint64_t sum = 0;
    for (; i < pairs.size() && pairs[i] >> kKeyBits >> bits == key; ++i)
      sum += pairs[i] & kCountMax;
    if (i + kAhead < pairs.size())
      prefetch(static_cast<std::uint32_t>(pairs[i + kAhead] >> kKeyBits >> bits));
    count(static_cast<std::uint32_t>(key), sum);
  }
  for (const auto& [key, count] : carried) carried_[key >> bits] += count;
}

void ValueHistogram::add(const ValueHistogram& other) {
  PADDLE_CHECK(other.distinct_max_ == distinct_max_);
  add(other.keys());
}

void ValueHistogram::add(const Keys& added) {
  if (table_.empty()) make_table();
  if (dropped_bits_ < added.dropped_bits)
    drop_bits(added.dropped_bits - dropped_bits_, sorted_pairs());
  for (std::size_t i = 0; i < added.keys.size(); ++i) {
    if (used_ >= used_max_of(table_.size())) make_room();  // which may drop further bits
    count(added.keys[i] >> (dropped_bits_ - added.dropped_bits), added.counts[i]);
  }
}

// All keys in ascending order, of which more than distinct_max_ may differ, with their counts.
// A number in the list of first numbers may be there several times.
const std::vector<std::uint64_t>& ValueHistogram::sorted_pairs() const {
  thread_local std::vector<std::uint64_t> pairs;
  pairs.resize(first_.size() + used_);
  std::size_t size = 0;
  for (const std::uint32_t key : first_) pairs[size++] = std::uint64_t{key} << kKeyBits | 1U;
  for (const Place& place : table_) {
    if (place.count > 0) pairs[size++] = std::uint64_t{place.key} << kKeyBits | place.count;
  }
  sort_by_key(pairs);
  return pairs;
}

ValueHistogram::Keys ValueHistogram::keys() const {
  const std::vector<std::uint64_t>& pairs = sorted_pairs();
  const auto [bits, distinct] = surplus_of(pairs, distinct_max_);
  Keys all{.dropped_bits = dropped_bits_ + bits};
  all.keys.reserve(distinct);
  all.counts.reserve(distinct);
  for (const std::uint64_t pair : pairs) {
    const auto key = static_cast<std::uint32_t>(pair >> kKeyBits >> bits);
    if (all.keys.empty() || all.keys.back() != key) {
      all.keys.push_back(key);
      all.counts.push_back(0);
    }
    all.counts.back() += pair & kCountMax;
  }
  for (const auto& [key, count] : carried_) {
    const auto at = std::ranges::lower_bound(all.keys, key >> bits) - all.keys.begin();
    all.counts[static_cast<std::size_t>(at)] += count;
  }
  return all;
}

bool ValueHistogram::are_keys(const Keys& keys, std::size_t distinct_max) {
  if (keys.dropped_bits >= kKeyBits || keys.keys.size() > distinct_max ||
      keys.counts.size() != keys.keys.size())
    return false;
  constexpr float kLargest = std::numeric_limits<float>::max();
  const auto is_finite = [&](std::uint32_t key) {
    return key >= key_of(-kLargest) >> keys.dropped_bits &&
           key <= key_of(kLargest) >> keys.dropped_bits;
  };
  return std::ranges::all_of(keys.keys, is_finite) &&
         std::ranges::adjacent_find(keys.keys, std::ranges::greater_equal()) == keys.keys.end() &&
         std::ranges::find(keys.counts, 0U) == keys.counts.end();
}

ValueHistogram::Counts ValueHistogram::counts() const {
  const Keys all = keys();
  Counts counts;
  counts.entries.reserve(all.keys.size());
  for (std::size_t i = 0; i < all.keys.size(); ++i)
    counts.entries.push_back({number_of(all.keys[i], all.dropped_bits), all.counts[i]});
  if (all.dropped_bits > 0)
    counts.relative_error = std::ldexp(1, static_cast<int>(all.dropped_bits) - kMantissaBits);
  return counts;
}

namespace {

// Numbers with their counts in ascending order, read from the front.
class SortedNumbers {
 public:
  SortedNumbers(std::span<const ValueHistogram::Entry> entries, std::uint64_t fills, double fill) {
    bool is_filled = fills == 0;
    for (const ValueHistogram::Entry& entry : entries) {
      const double number = entry.number;
      if (!is_filled && fill <= number) add(fill, fills);
      is_filled = is_filled || fill <= number;
      add(number, entry.count);
    }
    if (!is_filled) add(fill, fills);
  }

  std::uint64_t size() const { return ends_.back(); }
  // The number at a place, from 0 to size() - 1.
  double at(std::uint64_t place) const {
    const auto end = std::ranges::upper_bound(ends_, place);
    return numbers_[static_cast<std::size_t>(end - ends_.begin())];
  }

 private:
  void add(double number, std::uint64_t count) {
    numbers_.push_back(number);
    ends_.push_back(count + (ends_.empty() ? 0 : ends_.back()));
  }

  std::vector<double> numbers_;
  std::vector<std::uint64_t> ends_;  // how many numbers there are up to each
};

// As numpy interpolates between two neighbours, to the bit.
double between(double a, double b, double part) {
  const double difference = b - a;
  return part >= 0.5 ? b - difference * (1 - part) : a + difference * part;
}

}  // namespace

std::vector<double> quantiles(std::span<const ValueHistogram::Entry> entries, std::uint64_t fills,
                              double fill, std::uint32_t count) {
  const SortedNumbers numbers(entries, fills, fill);
  const auto last = static_cast<double>(numbers.size() - 1);
  std::vector<double> found;
  for (std::uint32_t i = 0; i <= count; ++i) {
    const double percent = i == count ? 100 : i * (100.0 / count);
    const double place = last * (percent / 100);
    const double below = std::floor(place);
    const auto first = static_cast<std::uint64_t>(below);
    const std::uint64_t second = std::min(first + 1, numbers.size() - 1);
    found.push_back(between(numbers.at(first), numbers.at(second), place - below));
  }
  return found;
}

}  // namespace paddle::data
