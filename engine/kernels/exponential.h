// Vectorisable exponential that sigmoid, tanh and softmax share.
#pragma once

#include <bit>
#include <cstdint>

namespace paddle::kernels {

// e^x with a relative error under 2e-7. Saturates below -87.3 (1.2e-38) and above 88.3 (2.2e38), so
// the result is always positive and finite; NaN stays NaN. Plain arithmetic: loops over it
// vectorise.
[[gnu::always_inline]] inline float exponential(float x) {
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

}  // namespace paddle::kernels
