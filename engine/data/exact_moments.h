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

// Each sum is an integer in units of the smallest number that a float32, or its square, can have:
// 2^-149 and 2^-298. Its digits have 32 bits, the lowest first. Between two carries a digit may
// have any value, so that add() is a few additions.
class ExactMoments {
 public:
  static constexpr std::size_t kSumDigits = 11;     // 2^64 numbers below 2^128
  static constexpr std::size_t kSquareDigits = 20;  // their squares
  static constexpr std::size_t kDigits = kSumDigits + kSquareDigits;

  // REQUIRES: x is finite.
  void add(float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t exponent = (bits >> 23U) & 0xffU;
    const std::uint64_t mantissa = (bits & 0x7fffffU) | (exponent > 0 ? 0x800000U : 0U);
    const std::uint32_t place = exponent > 0 ? exponent - 1 : 0;  // of the mantissa, in bits
    const std::uint64_t shifted = mantissa << (place % 32);
    const auto low = static_cast<std::int64_t>(shifted & kDigitMask);
    const auto high = static_cast<std::int64_t>(shifted >> 32U);
    const std::int64_t sign = (bits >> 31U) != 0 ? -1 : 1;
    digits_[place / 32] += sign * low;
    digits_[place / 32 + 1] += sign * high;
    add_square(mantissa * mantissa, 2 * place);
    if (++uncarried_ == kUncarriedMax) carry();
  }
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
  static constexpr std::uint32_t kUncarriedMax = 1U << 29U;  // of numbers below 2^32, in 63 bits

  // Adds a square below 2^48 at a place in bits.
  void add_square(std::uint64_t square, std::uint32_t place) {
    std::int64_t* const at = digits_.data() + kSumDigits + place / 32;
    const std::uint32_t shift = place % 32;
    const std::uint64_t low = (square & kDigitMask) << shift;
    const std::uint64_t high = (square >> 32U) << shift;  // one digit above
    at[0] += static_cast<std::int64_t>(low & kDigitMask);
    at[1] += static_cast<std::int64_t>((low >> 32U) + (high & kDigitMask));
    at[2] += static_cast<std::int64_t>(high >> 32U);
  }
  void carry();

  std::array<std::int64_t, kDigits> digits_{};
  std::uint32_t uncarried_ = 0;
};

}  // namespace paddle::data
