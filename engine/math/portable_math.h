// Exponential, logarithm and sums that vectorise and give the same bits on every machine.
// Exponential and logarithm give the same bits on a card, too.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/multiversion.h"

namespace paddle::kernels {

// e^x with a relative error under 2e-7. Saturates below -87.3 (1.2e-38) and above 88.3 (2.2e38), so
// the result is always positive and finite; NaN stays NaN. Plain arithmetic: loops over it
// vectorise.
PADDLE_HD_INLINE float exponential(float x) {
  x = x < -87.3F ? -87.3F : x;
  x = x > 88.3F ? 88.3F : x;
  // Adding 1.5 * 2^23 rounds to the nearest integer and leaves it in the low bits.
  const float shifted = x * 0x1.715476p+0F + 0x1.8p+23F;
  const float n = shifted - 0x1.8p+23F;
  // ln 2 in two parts; n * the first part is exact.
  const float r = (x - n * 0x1.63p-1F) - n * -0x1.bd0106p-13F;
  // Taylor's series on |r| <= ln(2)/2: the first omitted term is below 1.2e-7 / 20.
  float p = 1.0F / 5040.0F;
  p = p * r + 1.0F / 720.0F;
  p = p * r + 1.0F / 120.0F;
  p = p * r + 1.0F / 24.0F;
  p = p * r + 1.0F / 6.0F;
  p = p * r + 0.5F;
  p = (p * r) * r + r + 1.0F;
  const std::uint32_t exponent = (std::bit_cast<std::uint32_t>(shifted) - 0x4b400000U + 127U)
                                 << 23U;
  return p * std::bit_cast<float>(exponent);
}

// 1 / (1 + e^-x), absolute error under 3e-7.
PADDLE_HD_INLINE float logistic(float x) {
  return 1.0F / (1.0F + exponential(-x));
}

// ln x with an error under 1e-13 * (1 + |ln x|) for every positive, normal, finite x.
PADDLE_HD_INLINE double logarithm(double x) {
  constexpr std::uint64_t kMantissa = (1ULL << 52U) - 1;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  auto exponent = static_cast<std::int64_t>(bits >> 52U) - 1023;
  double m = std::bit_cast<double>((bits & kMantissa) | (1023ULL << 52U));  // [1, 2)
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  // ln m = 2 atanh(t) with |t| < 0.1716: the first omitted term is below 2 * t^17 / 17 = 1.2e-14.
  const double t = (m - 1.0) / (m + 1.0);
  const double z = t * t;
  double series = 1.0 / 15.0;
  series = series * z + 1.0 / 13.0;
  series = series * z + 1.0 / 11.0;
  series = series * z + 1.0 / 9.0;
  series = series * z + 1.0 / 7.0;
  series = series * z + 1.0 / 5.0;
  series = series * z + 1.0 / 3.0;
  series = series * z + 1.0;
  return static_cast<double>(exponent) * 0.6931471805599453 + 2.0 * t * series;
}

// Wide enough for any vector unit.
constexpr std::size_t kSumLanes = 32;

// term(0) + ... + term(count - 1): lane k adds the terms k, k + 32, ..., then the halves are added.
template <class Term>
[[gnu::always_inline]] inline float lane_sum(std::size_t count, Term term) {
  std::array<float, kSumLanes> lanes{};
  std::size_t i = 0;
  for (; i + kSumLanes <= count; i += kSumLanes) {
    for (std::size_t k = 0; k < kSumLanes; ++k) lanes[k] += term(i + k);
  }
  for (std::size_t k = 0; i + k < count; ++k) lanes[k] += term(i + k);
  for (std::size_t half = kSumLanes / 2; half > 0; half /= 2) {
    for (std::size_t k = 0; k < half; ++k) lanes[k] += lanes[k + half];
  }
  return lanes[0];
}

}  // namespace paddle::kernels
