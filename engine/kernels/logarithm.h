// Natural logarithm without libm, with the same bits on every machine.
#pragma once

#include <bit>
#include <cstdint>

namespace paddle::kernels {

// ln x with an error under 1e-13 * (1 + |ln x|) for every positive, normal, finite x.
[[gnu::always_inline]] inline double logarithm(double x) {
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

}  // namespace paddle::kernels
