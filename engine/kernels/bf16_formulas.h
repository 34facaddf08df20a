// Rounding of one value to bfloat16, on the host and on a card; bf16.h says how.
#pragma once

#include <bit>
#include <cstdint>

#include "base/multiversion.h"

namespace paddle::kernels {

// The bits of a float whose lower half is 0.
PADDLE_HD_INLINE std::uint32_t round_bits_to_bf16(float value) {
  constexpr std::uint32_t kMagnitude = 0x7fffffff;
  constexpr std::uint32_t kInfinity = 0x7f800000;
  constexpr std::uint32_t kQuiet = 0x00400000;  // the bit of a NaN that survives the cut
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t nearest = bits + 0x7fff + ((bits >> 16U) & 1U);
  const std::uint32_t kept = (bits & kMagnitude) > kInfinity ? bits | kQuiet : nearest;
  return kept & 0xffff0000;
}

// Whether a float of these bits is neither infinite nor NaN.
PADDLE_HD_INLINE bool is_finite_bf16(std::uint32_t bits) {
  return (bits & 0x7fffffffU) < 0x7f800000U;
}

PADDLE_HD_INLINE float value_of_bf16(std::uint16_t q) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(q) << 16U);
}

}  // namespace paddle::kernels
