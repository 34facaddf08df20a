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

// Sorts keys of `bits` bits: from the lowest digits to the highest, it puts them in the order of
// one digit and leaves those with the same digit in their order.
void sort_keys(unsigned bits, std::vector<std::uint32_t>& keys) {
  constexpr unsigned kSortedBits = 11;
  std::vector<std::uint32_t> sorted(keys.size());
  for (unsigned shift = 0; shift < bits; shift += kSortedBits) {
    const auto digit_of = [shift](std::uint32_t key) {
      return (key >> shift) & ((1U << kSortedBits) - 1);
    };
    std::array<std::uint32_t, 1U << kSortedBits> ends{};
    for (const std::uint32_t key : keys) ++ends[digit_of(key)];
    std::uint32_t end = 0;
    for (std::uint32_t& one : ends) end += std::exchange(one, end);
    for (const std::uint32_t key : keys) sorted[ends[digit_of(key)]++] = key;
    keys.swap(sorted);
  }
}

}  // namespace

ValueHistogram::ValueHistogram(std::size_t distinct_max)
    : distinct_max_(distinct_max), added_max_(std::max<std::size_t>(distinct_max, 64)) {
  PADDLE_CHECK(distinct_max >= 2 && distinct_max <= (std::size_t{1} << 31U));
}

float ValueHistogram::number_of(std::uint32_t key, unsigned dropped_bits) {
  const std::uint32_t lowest = key << dropped_bits;
  const std::uint32_t highest = lowest | ((1U << dropped_bits) - 1);
  const bool is_positive = key_of(0) <= lowest;
  return std::bit_cast<float>(is_positive ? lowest ^ key_of(0) : ~highest);
}

void ValueHistogram::count_added() {
  Keys added{.dropped_bits = counted_.dropped_bits};
  for (std::uint32_t& key : added_) key >>= added.dropped_bits;
  sort_keys(kKeyBits - added.dropped_bits, added_);
  for (const std::uint32_t key : added_) {
    if (added.keys.empty() || added.keys.back() != key) {
      added.keys.push_back(key);
      added.counts.push_back(0);
    }
    ++added.counts.back();
  }
  added_.clear();
  merge(added);
}

void ValueHistogram::add(const ValueHistogram& other) {
  PADDLE_CHECK(other.distinct_max_ == distinct_max_);
  add(other.keys());
}

void ValueHistogram::add(Keys keys) {
  if (counted_.dropped_bits < keys.dropped_bits)
    drop_bits(keys.dropped_bits - counted_.dropped_bits, counted_);
  drop_bits(counted_.dropped_bits - keys.dropped_bits, keys);
  merge(keys);
}

// REQUIRES: both have the same number of dropped bits.
void ValueHistogram::merge(const Keys& other) {
  Keys sum{.dropped_bits = counted_.dropped_bits};
  sum.keys.reserve(counted_.keys.size() + other.keys.size());
  sum.counts.reserve(sum.keys.capacity());
  std::size_t i = 0, j = 0;
  while (i < counted_.keys.size() || j < other.keys.size()) {
    const bool is_ours =
        j == other.keys.size() || (i < counted_.keys.size() && counted_.keys[i] <= other.keys[j]);
    const bool is_others =
        i == counted_.keys.size() || (j < other.keys.size() && other.keys[j] <= counted_.keys[i]);
    sum.keys.push_back(is_ours ? counted_.keys[i] : other.keys[j]);
    sum.counts.push_back((is_ours ? counted_.counts[i] : 0) + (is_others ? other.counts[j] : 0));
    i += is_ours ? 1 : 0;
    j += is_others ? 1 : 0;
  }
  while (sum.keys.size() > distinct_max_) drop_bits(1, sum);
  counted_ = std::move(sum);
}

void ValueHistogram::drop_bits(unsigned bits, Keys& keys) {
  if (bits == 0) return;
  std::size_t size = 0;
  for (std::size_t i = 0; i < keys.keys.size(); ++i) {
    const std::uint32_t key = keys.keys[i] >> bits;
    if (size > 0 && keys.keys[size - 1] == key) {
      keys.counts[size - 1] += keys.counts[i];
      continue;
    }
    keys.keys[size] = key;
    keys.counts[size++] = keys.counts[i];
  }
  keys.keys.resize(size);
  keys.counts.resize(size);
  keys.dropped_bits += bits;
}

ValueHistogram::Keys ValueHistogram::keys() const {
  ValueHistogram all = *this;
  all.count_added();
  return std::move(all.counted_);
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
