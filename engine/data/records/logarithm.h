// Logarithm of whole numbers with the same bits on every machine; libm's may differ.
#pragma once

#include <bit>
#include <cstdint>

namespace paddle::data {

// Returns ln x to float32's precision, x > 0: x = m 2^e with m in [1/sqrt 2, sqrt 2), ln m = 2
// artanh s with s = (m - 1) / (m + 1), |s| < 0.172, by its series.
inline float logarithm(std::uint64_t x) {
  constexpr double kLn2 = 0.69314718055994530942;
  constexpr double kSqrt2 = 1.41421356237309504880;
  int exponent = static_cast<int>(std::bit_width(x)) - 1;
  double m = static_cast<double>(x) / static_cast<double>(std::uint64_t{1} << exponent);
  if (m >= kSqrt2) {
    m /= 2;
    ++exponent;
  }
  const double s = (m - 1) / (m + 1);
  const double square = s * s;
  double sum = 0;
  for (int k = 13; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
  return static_cast<float>(2 * s * sum + exponent * kLn2);
}

}  // namespace paddle::data
