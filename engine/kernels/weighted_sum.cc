#include "engine/kernels/weighted_sum.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "base/multiversion.h"

namespace paddle::kernels {
namespace {

constexpr std::size_t kSumBlock = 2048;  // floats; the partial sums stay in the first-level cache

PADDLE_MULTIVERSION
void sum_of_two(std::size_t count, const float* a, float a_weight, const float* b, float b_weight,
                float* y) {
// The result may lie where a or b does: element i alone depends on element i.
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) y[i] = (0.0F + a_weight * a[i]) + b_weight * b[i];
}

PADDLE_MULTIVERSION
void begin_sum(std::size_t count, const float* __restrict x, float weight, float* __restrict sum) {
  for (std::size_t i = 0; i < count; ++i) sum[i] = 0.0F + weight * x[i];
}

PADDLE_MULTIVERSION
void continue_sum(std::size_t count, const float* __restrict x, float weight,
                  float* __restrict sum) {
  for (std::size_t i = 0; i < count; ++i) sum[i] += weight * x[i];
}

}  // namespace

void weighted_sum(std::size_t count, std::span<const float* const> x,
                  std::span<const float> weights, float* y) {
  PADDLE_CHECK(x.size() == weights.size());
  std::array<std::size_t, 2> first{};  // the first two that take part
  std::size_t taking_part = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (weights[i] == 0.0F) continue;
    if (taking_part < first.size()) first[taking_part] = i;
    ++taking_part;
  }
  if (count == 0) return;
  if (taking_part == 0) {
    std::fill_n(y, count, 0.0F);
  } else if (taking_part == 1 && weights[first[0]] == 1.0F) {
    if (y != x[first[0]]) std::memcpy(y, x[first[0]], count * sizeof(float));
  } else if (taking_part == 2) {
    sum_of_two(count, x[first[0]], weights[first[0]], x[first[1]], weights[first[1]], y);
  } else {
    std::array<float, kSumBlock> sum;
    for (std::size_t at = 0; at < count; at += kSumBlock) {
      const std::size_t part = std::min(kSumBlock, count - at);
      for (std::size_t i = first[0]; i < x.size(); ++i) {
        if (weights[i] == 0.0F) continue;
        const auto add = i == first[0] ? &begin_sum : &continue_sum;
        add(part, x[i] + at, weights[i], sum.data());
      }
      std::memcpy(y + at, sum.data(), part * sizeof(float));
    }
  }
}

}  // namespace paddle::kernels
