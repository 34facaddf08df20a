// Tests of sums without rounding: constants of scikit-learn, extreme numbers, and the same bits for
// any order and division.
#include "engine/data/exact_moments.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace paddle::data {
namespace {

ExactMoments sum_of(const std::vector<float>& numbers) {
  ExactMoments moments;
  NumberBins bins;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    bins.add(numbers[i]);
    if ((i + 1) % NumberBins::kNumbersMax == 0) moments.add(bins);
  }
  moments.add(bins);
  return moments;
}

Moments moments_of(const std::vector<float>& numbers) {
  return sum_of(numbers).moments(numbers.size(), 0, 0);
}

TEST(ExactMomentsTest, AMeanFarAboveTheDeviationCostsNoDigit) {
  // StandardScaler().fit(), whose mean_ and scale_ here are correctly rounded.
  const Moments found = moments_of({16777213, 16777215, 16777214, 16777210, 16777215});
  EXPECT_EQ(found.mean, 16777213.4);
  EXPECT_EQ(found.deviation, 1.8547236990991407);
}

TEST(ExactMomentsTest, NumbersFilledInCountAsOthers) {
  // Pipeline(SimpleImputer("mean"), StandardScaler()), then SimpleImputer("constant", -7.25).
  const std::vector<float> numbers{1, 2.5, -4, 8, 0.1F};
  const double mean = moments_of(numbers).mean;
  EXPECT_EQ(mean, 1.5200000002980232);
  const Moments by_mean = sum_of(numbers).moments(5, 2, mean);
  EXPECT_EQ(by_mean.mean, 1.5200000002980232);
  EXPECT_EQ(by_mean.deviation, 3.2886818895758236);
  const Moments by_constant = sum_of(numbers).moments(5, 2, -7.25);
  EXPECT_EQ(by_constant.mean, -0.9857142855014119);
  EXPECT_EQ(by_constant.deviation, 5.148974536349199);
}

TEST(ExactMomentsTest, OnlyFilledOrNoNumbers) {
  EXPECT_EQ(ExactMoments().moments(0, 0, 0).mean, 0);
  const Moments filled = ExactMoments().moments(0, 3, -0.1);
  EXPECT_EQ(filled.mean, -0.1);
  EXPECT_EQ(filled.deviation, 0);
}

TEST(ExactMomentsTest, TheLargestAndTheSmallestNumbersTogether) {
  const float largest = std::numeric_limits<float>::max();
  const float smallest = std::numeric_limits<float>::denorm_min();
  // Sums of doubles lose the smallest number.
  const Moments found = moments_of({largest, smallest, -largest});
  EXPECT_EQ(found.mean, static_cast<double>(smallest) / 3);
  EXPECT_EQ(found.deviation, static_cast<double>(largest) * std::sqrt(2.0 / 3));
  EXPECT_EQ(moments_of({smallest, -smallest}).deviation, smallest);
  EXPECT_EQ(moments_of({-largest, -largest}).mean, -static_cast<double>(largest));
  EXPECT_EQ(moments_of({0.0F, -0.0F}).mean, 0);
}

TEST(ExactMomentsTest, AConstantColumnHasNoDeviation) {
  EXPECT_EQ(moments_of(std::vector<float>(1000, 0.1F)).mean, 0.1F);
  EXPECT_EQ(moments_of(std::vector<float>(1000, 0.1F)).deviation, 0);
}

TEST(ExactMomentsTest, AnyOrderAndDivisionHasTheSameDigits) {
  std::mt19937 random(7);
  std::vector<float> numbers;
  for (int i = 0; i < 1000; ++i) {
    const auto part = static_cast<float>(random() % 2000) - 1000;
    numbers.push_back(std::ldexp(part, static_cast<int>(random() % 200) - 100));
  }
  const auto expected = sum_of(numbers).digits();
  ASSERT_TRUE(ExactMoments::are_digits(expected));
  for (const std::size_t parts : {1U, 2U, 4U, 7U}) {
    std::ranges::shuffle(numbers, random);
    std::vector<ExactMoments> each(parts);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      NumberBins bins;
      bins.add(numbers[i]);
      each[i % parts].add(bins);
    }
    ExactMoments all;
    for (const ExactMoments& part : each) all.add(ExactMoments::from_digits(part.digits()));
    EXPECT_EQ(all.digits(), expected);
  }
}

TEST(ExactMomentsTest, BinsCountNumbersAndMissingOnes) {
  constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();
  NumberBins bins;
  for (const float number : {1.0F, kMissing, -0.0F, 1e-40F, -kMissing, -3.0F}) bins.add(number);
  ExactMoments moments;
  const ExactMoments::Counts counts = moments.add(bins);
  EXPECT_EQ(counts.numbers, 4U);
  EXPECT_EQ(counts.missing, 2U);
  EXPECT_EQ(moments.digits(), sum_of({1, 0, 1e-40F, -3}).digits());
  EXPECT_EQ(moments.add(bins).numbers, 0U) << "they were emptied";
}

TEST(ExactMomentsTest, FullBinsOfTheLargestFractionsHaveRoom) {
  for (const float number :
       {std::numeric_limits<float>::max(), -0x1.fffffep-3F, 0x0.fffffep-126F, 0x1.fffffep-126F}) {
    const Moments found = moments_of(std::vector<float>(NumberBins::kNumbersMax, number));
    EXPECT_EQ(found.mean, number);
    EXPECT_EQ(found.deviation, 0);
  }
}

TEST(ExactMomentsTest, RefusesDigitsThatNoSumHas) {
  auto digits = sum_of({1, -2}).digits();
  EXPECT_TRUE(ExactMoments::are_digits(digits));
  digits[0] = -1;
  EXPECT_FALSE(ExactMoments::are_digits(digits));
  digits[0] = std::int64_t{1} << 32;
  EXPECT_FALSE(ExactMoments::are_digits(digits));
  digits[0] = 0;
  digits.back() = -1;  // a negative sum of squares
  EXPECT_FALSE(ExactMoments::are_digits(digits));
  digits.back() = std::int64_t{1} << 40;
  EXPECT_FALSE(ExactMoments::are_digits(digits));
}

}  // namespace
}  // namespace paddle::data
