// Tests of histograms for quantiles: exact while they can be, and of the stated error beyond.
#include "engine/data/value_histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

namespace paddle::data {
namespace {

constexpr std::size_t kMany = 1U << 16U;

ValueHistogram histogram_of(const std::vector<float>& numbers, std::size_t distinct_max = kMany) {
  ValueHistogram histogram(distinct_max);
  histogram.add(numbers);
  return histogram;
}

std::vector<double> quantiles_of(const std::vector<float>& numbers, std::uint32_t count) {
  return quantiles(histogram_of(numbers).counts().entries, 0, 0, count);
}

std::vector<float> normal_numbers(std::size_t count) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(2, 5);
  std::vector<float> numbers(count);
  for (float& number : numbers) number = normal(random);
  return numbers;
}

TEST(ValueHistogramTest, EntriesAscend) {
  const ValueHistogram histogram = histogram_of({3, -1.5F, 0, 3, -0.0F, -2, 1e-40F, -1e-40F});
  const std::vector<ValueHistogram::Entry> expected{{-2, 1}, {-1.5F, 1},  {-1e-40F, 1},
                                                    {0, 2},  {1e-40F, 1}, {3, 2}};
  EXPECT_EQ(histogram.counts().entries, expected);
  EXPECT_EQ(histogram.counts().relative_error, 0);
}

TEST(ValueHistogramTest, QuantilesAreThoseOfNumpy) {
  // numpy.percentile(z, numpy.linspace(0, 100, count + 1))
  const std::vector<float> z{0, 0, 0, 0, 1, 2, 2, 3, 5, 8, 8, 8, 8, 13};
  EXPECT_EQ(quantiles_of(z, 4), (std::vector<double>{0, 0.25, 2.5, 8, 13}));
  EXPECT_EQ(
      quantiles_of({0.1F, 0.7F, 0.2F, 0.4F, 5.5F, -3.25F, 2.5F}, 7),
      (std::vector<double>{-3.25, -0.37857142729418597, 0.17142857398305622, 0.3142857189689364,
                           0.5285714268684388, 1.2142857057707648, 2.9285714285714297, 5.5}));
}

TEST(ValueHistogramTest, QuantilesCountNumbersThatWereFilledIn) {
  // The same after SimpleImputer(strategy="mean") filled two numbers in.
  const ValueHistogram histogram = histogram_of({0.1F, 0.7F, 0.2F, 0.4F, 5.5F, -3.25F, 2.5F});
  EXPECT_EQ(quantiles(histogram.counts().entries, 2, 0.8785714283585548, 4),
            (std::vector<double>{-3.25, 0.20000000298023224, 0.699999988079071, 0.8785714283585548,
                                 5.5}));
  EXPECT_EQ(quantiles({}, 3, 1.5, 2), (std::vector<double>{1.5, 1.5, 1.5}));
  // Below and above all others.
  EXPECT_EQ(quantiles(histogram_of({1, 2}).counts().entries, 1, 0, 2),
            (std::vector<double>{0, 1, 2}));
  EXPECT_EQ(quantiles(histogram_of({1, 2}).counts().entries, 1, 3, 2),
            (std::vector<double>{1, 2, 3}));
}

TEST(ValueHistogramTest, ExactUpToItsNumberOfDifferentNumbers) {
  std::vector<float> numbers;
  for (std::size_t i = 0; i < kMany; ++i) numbers.push_back(static_cast<float>(i) * 0.37F);
  EXPECT_EQ(histogram_of(numbers).counts().relative_error, 0);
  numbers.push_back(-1);
  EXPECT_EQ(histogram_of(numbers).counts().relative_error, std::ldexp(1, -15));
  EXPECT_LE(histogram_of(numbers).counts().entries.size(), kMany);
}

TEST(ValueHistogramTest, QuantilesOfManyNumbersAreWithinTheStatedError) {
  std::vector<float> numbers = normal_numbers(300'000);
  const ValueHistogram histogram = histogram_of(numbers);
  const double error = histogram.counts().relative_error;
  EXPECT_GT(error, 0);
  EXPECT_LT(error, 1e-3);
  std::ranges::sort(numbers);
  constexpr std::uint32_t kCount = 1000;
  const std::vector<double> found = quantiles(histogram.counts().entries, 0, 0, kCount);
  for (std::uint32_t i = 0; i <= kCount; ++i) {
    const double place = static_cast<double>(numbers.size() - 1) * i / kCount;
    const auto below = static_cast<std::size_t>(place);
    const double a = numbers[below], b = numbers[std::min(below + 1, numbers.size() - 1)];
    const double exact = a + (b - a) * (place - std::floor(place));
    EXPECT_NEAR(found[i], exact, error * std::max(std::abs(a), std::abs(b))) << i;
  }
}

TEST(ValueHistogramTest, AMillionNormalNumbersHaveTheErrorThatTheManualNames) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> numbers(1'000'000);
  for (float& number : numbers) number = normal(random);
  const ValueHistogram histogram = histogram_of(numbers);
  EXPECT_NEAR(histogram.counts().relative_error, 0.0005, 0.00005);
}

TEST(ValueHistogramTest, NumbersOfFewDigitsStayExact) {
  std::vector<float> numbers = normal_numbers(300'000);
  for (const float common : {0.0F, 3.0F, -3.0F, 1024.0F}) {
    numbers.insert(numbers.end(), 100'000, common);
  }
  const auto entries = histogram_of(numbers).counts().entries;
  for (const float common : {0.0F, 3.0F, -3.0F, 1024.0F}) {
    const auto found = std::ranges::find(entries, common, &ValueHistogram::Entry::number);
    ASSERT_NE(found, entries.end()) << common;
    EXPECT_GE(found->count, 100'000U);
  }
}

TEST(ValueHistogramTest, AnyOrderAndDivisionHasTheSameEntries) {
  std::vector<float> numbers = normal_numbers(200'000);
  const auto expected = histogram_of(numbers, 1000).counts().entries;
  EXPECT_LE(expected.size(), 1000U);
  std::mt19937 random(5);
  for (const std::size_t parts : {1U, 2U, 4U, 7U}) {
    std::ranges::shuffle(numbers, random);
    std::vector<ValueHistogram> each(parts, ValueHistogram(1000));
    for (std::size_t i = 0; i < numbers.size(); ++i) each[i % parts].add(std::span(&numbers[i], 1));
    ValueHistogram all(1000);
    for (const ValueHistogram& part : each) all.add(part);
    EXPECT_EQ(all.counts().entries, expected);
  }
}

TEST(ValueHistogramTest, PartsOfDifferentResolutionsAddUp) {
  std::vector<float> fine{1.25F, 1.2500001F, 7, -3};
  std::vector<float> coarse = normal_numbers(50'000);
  std::vector<float> together = fine;
  together.insert(together.end(), coarse.begin(), coarse.end());
  for (const bool fine_first : {true, false}) {
    ValueHistogram sum = histogram_of(fine_first ? fine : coarse, 2000);
    sum.add(histogram_of(fine_first ? coarse : fine, 2000));
    EXPECT_EQ(sum.counts().entries, histogram_of(together, 2000).counts().entries);
  }
  EXPECT_LT(histogram_of(fine, 2000).counts().relative_error,
            histogram_of(coarse, 2000).counts().relative_error);
}

// With every number of them, the table of keys grows or loses bits in other places.
TEST(ValueHistogramTest, HasTheCountsOfASortedListAtAnySize) {
  const std::vector<float> numbers = normal_numbers(3000);
  for (const std::size_t size : {1U, 47U, 48U, 49U, 95U, 97U, 500U, 1535U, 1537U, 3000U}) {
    std::vector<float> some(numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(size));
    some.insert(some.end(), numbers.begin(), numbers.begin() + 1);
    const ValueHistogram histogram = histogram_of(some, 4096);
    std::map<float, std::uint64_t> expected;
    for (const float number : some) ++expected[number];
    ASSERT_EQ(histogram.counts().entries.size(), expected.size());
    for (const auto& [number, count] : histogram.counts().entries)
      EXPECT_EQ(count, expected[number]);
    // The fewest bits: with one less there are too many different keys.
    const ValueHistogram::Keys exact = histogram.keys();
    const ValueHistogram::Keys few = histogram_of(some, 40).keys();
    EXPECT_LE(few.keys.size(), 40U);
    std::set<std::uint32_t> with_one_more;
    for (const std::uint32_t key : exact.keys) {
      if (few.dropped_bits > 0) with_one_more.insert(key >> (few.dropped_bits - 1));
    }
    EXPECT_TRUE(few.dropped_bits == 0 || with_one_more.size() > 40U) << size;
  }
}

TEST(ValueHistogramTest, CountsBeyond32Bits) {
  constexpr std::uint64_t kMost = 0xffffffffU;
  ValueHistogram histogram = histogram_of({1, 2, 2});
  ValueHistogram::Keys keys = histogram.keys();
  keys.counts = {kMost - 2, 5 * kMost};
  histogram.add(keys);
  histogram.add(std::vector<float>{1, 1, 2, 1});
  const std::vector<ValueHistogram::Entry> expected{{1, kMost + 2}, {2, 5 * kMost + 3}};
  EXPECT_EQ(histogram.counts().entries, expected);
  // Also after bits were dropped.
  const std::vector<float> many = normal_numbers(200'000);
  histogram.add(many);
  std::uint64_t sum = 0;
  for (const auto& [number, count] : histogram.counts().entries) sum += count;
  EXPECT_GT(histogram.counts().relative_error, 0);
  EXPECT_EQ(sum, 6 * kMost + 5 + many.size());
}

TEST(ValueHistogramTest, OneEntryForEachSignIsTheLeast) {
  const ValueHistogram histogram = histogram_of({-2, -1e30F, 5, 0, 1e30F}, 2);
  EXPECT_EQ(histogram.counts().entries.size(), 2U);
  EXPECT_EQ(histogram.counts().entries[0].count, 2U);
}

TEST(ValueHistogramTest, RefusesKeysThatNoHistogramHas) {
  const auto keys = [] { return histogram_of({1, 2, -3}).keys(); };
  EXPECT_TRUE(ValueHistogram::are_keys(keys(), 3));
  EXPECT_FALSE(ValueHistogram::are_keys(keys(), 2));
  auto bad = keys();
  std::swap(bad.keys[0], bad.keys[1]);
  EXPECT_FALSE(ValueHistogram::are_keys(bad, 3));
  bad = keys();
  bad.keys[1] = bad.keys[0];
  EXPECT_FALSE(ValueHistogram::are_keys(bad, 3));
  bad = keys();
  bad.counts[1] = 0;
  EXPECT_FALSE(ValueHistogram::are_keys(bad, 3));
  bad = keys();
  bad.counts.pop_back();
  EXPECT_FALSE(ValueHistogram::are_keys(bad, 3));
  bad = keys();
  bad.dropped_bits = 32;
  EXPECT_FALSE(ValueHistogram::are_keys(bad, 3));
  for (const std::uint32_t infinite : {0xff800000U, 0xffffffffU, 0x007fffffU, 0U}) {
    ValueHistogram::Keys one{.dropped_bits = 0, .keys = {infinite}, .counts = {1}};
    EXPECT_FALSE(ValueHistogram::are_keys(one, 3)) << infinite;
  }
  const float largest = std::numeric_limits<float>::max();
  for (const std::size_t distinct_max : {2U, 3U, 5U}) {
    const ValueHistogram wide = histogram_of({largest, -largest, 0, 1, 2}, distinct_max);
    EXPECT_TRUE(ValueHistogram::are_keys(wide.keys(), distinct_max));
  }
}

}  // namespace
}  // namespace paddle::data
