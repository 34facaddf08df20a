// The sum of numbers and the sum of their squares without any rounding, so that their mean and
// deviation do not depend on the order of the numbers or on how they were divided into parts.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace paddle::data {

// A mean and a standard deviation of the population.
struct Moments {
  double mean = 0;
  double deviation = 0;  // the root of the mean square of x - mean
};

class NumberBins;

// Each sum is an integer in units of the smallest number that a float32, or its square, can have:
// 2^-149 and 2^-298. Its digits have 32 bits, the lowest first. Between two carries a digit may
// have any value, so that adding bins takes a few additions for each.
class ExactMoments {
 public:
  static constexpr std::size_t kSumDigits = 11;     // 2^64 numbers below 2^128
  static constexpr std::size_t kSquareDigits = 20;  // their squares
  static constexpr std::size_t kDigits = kSumDigits + kSquareDigits;

  struct Counts {
    std::uint64_t numbers = 0, missing = 0;  // `missing` are NaN
  };
  // Adds the numbers in `bins`, and empties them. Returns how many there were.
  Counts add(NumberBins& bins);
  void add(const ExactMoments& other);

  // The moments of `count` numbers, which were added, and of `fills` more numbers that all equal
  // `fill`. Each is computed without rounding and then rounded once; the deviation is the root of a
  // variance that was. Both are 0 if there is no number.
  Moments moments(std::uint64_t count, std::uint64_t fills, double fill) const;

  // Digits of the sum, then of the squares. All but the last of each are from 0 to 2^32 - 1.
  std::array<std::int64_t, kDigits> digits() const;
  // Whether digits() can return these.
  static bool are_digits(std::span<const std::int64_t, kDigits> digits);
  // REQUIRES: are_digits(digits).
  static ExactMoments from_digits(std::span<const std::int64_t, kDigits> digits);

 private:
  static constexpr std::uint64_t kDigitMask = 0xffffffffU;
  static constexpr std::uint32_t kUncarriedMax = 1U << 29U;  // of additions below 2^33, in 63 bits

  // Adds value * 2^place to the number whose digits begin at `digit`, or subtracts it.
  void add(std::size_t digit, std::uint64_t value, std::uint32_t place, bool is_negative);
  void carry();

  std::array<std::int64_t, kDigits> digits_{};
  std::uint32_t uncarried_ = 0;
};

// Up to kNumbersMax numbers of a column, on their way to its moments: how many numbers there are of
// each sign and exponent, with the sum of their fractions and the sum of the fractions' squares. A
// number takes two additions and no branch, even if it is NaN.
class NumberBins {
 public:
  static constexpr std::size_t kNumbersMax = 1U << 15U;

  // REQUIRES: x is not infinite.
  void add(float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    const std::uint64_t fraction = bits & kFractionMask;
    Bin& bin = bins_[bits >> kFractionBits];
    bin.count_and_sum += kOne | fraction;
    bin.squares += fraction * fraction;
  }

 private:
  friend class ExactMoments;
  static constexpr unsigned kFractionBits = 23;
  static constexpr std::uint32_t kFractionMask = (1U << kFractionBits) - 1;
  static constexpr unsigned kCountPlace = 40;  // above the sum of kNumbersMax fractions
  static constexpr std::uint64_t kOne = std::uint64_t{1} << kCountPlace;

  struct Bin {
    std::uint64_t count_and_sum = 0, squares = 0;
  };
  // By sign and exponent. Four more, so that equal bins of several objects in a row do not share a
  // set of the processor's cache.
  std::array<Bin, (1U << 9U) + 4> bins_{};
};

}  // namespace paddle::data
