// Sum that vectorises and still has one order of addition.
#pragma once

#include <array>
#include <cstddef>

namespace paddle::kernels {

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
