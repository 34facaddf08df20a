#include "engine/math/rank_sums.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/multiversion.h"
#include "engine/math/formulas.h"

namespace paddle::kernels {
namespace {

constexpr std::size_t kSumBlock = 2048;  // floats; the partial sums stay in the first-level cache

PADDLE_MULTIVERSION
void sum_of_two(std::size_t count, const float* a, float a_weight, const float* b, float b_weight,
                float* y) {
// y may be the same buffer as a or b: y[i] depends only on a[i] and b[i].
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

constexpr std::size_t kBf16Block = 2048;  // floats; the partial sums stay in the first-level cache

PADDLE_MULTIVERSION
void round_sums(std::size_t count, const float* __restrict x, float weight,
                float* __restrict residual, Bf16* __restrict q) {
  for (std::size_t i = 0; i < count; ++i) {
    const float sum = weight * x[i] + residual[i];
    const std::uint32_t bits = round_bits_to_bf16(sum);
    q[i] = static_cast<Bf16>(bits >> 16U);
    residual[i] = is_finite_bf16(bits) ? sum - std::bit_cast<float>(bits) : 0.0F;
  }
}

PADDLE_MULTIVERSION
void round_residuals(std::size_t count, float* __restrict residual, Bf16* __restrict q) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t bits = round_bits_to_bf16(residual[i]);
    q[i] = static_cast<Bf16>(bits >> 16U);
    residual[i] -= std::bit_cast<float>(bits);
  }
}

PADDLE_MULTIVERSION
void add_to(std::size_t count, const Bf16* __restrict q, float* __restrict sum) {
  for (std::size_t i = 0; i < count; ++i) sum[i] += value_of_bf16(q[i]);
}

PADDLE_MULTIVERSION
void add_weighted(std::size_t count, const float* __restrict x, float weight,
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

void round_with_residual(std::size_t count, const float* x, float weight, float* residual,
                         Bf16* q) {
  if (weight == 0.0F) return round_residuals(count, residual, q);
  round_sums(count, x, weight, residual, q);
}

PADDLE_MULTIVERSION
void round_move(std::size_t count, const float* __restrict target, float* __restrict y,
                Bf16* __restrict q) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t bits = round_bits_to_bf16(target[i] - y[i]);
    q[i] = static_cast<Bf16>(bits >> 16U);
    y[i] += std::bit_cast<float>(bits);
  }
}

void add_bf16(std::size_t count, const Bf16* q, float* y) {
  add_to(count, q, y);
}

void sum_bf16(std::size_t count, std::span<const Bf16* const> x, std::size_t own, float weight,
              float* y) {
  PADDLE_CHECK(own < x.size());
  std::array<float, kBf16Block> sum;
  for (std::size_t at = 0; at < count; at += kBf16Block) {
    const std::size_t part = std::min(kBf16Block, count - at);
    std::fill_n(sum.data(), part, 0.0F);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (i != own) {
        add_to(part, x[i] + at, sum.data());
      } else if (weight != 0.0F) {
        add_weighted(part, y + at, weight, sum.data());
      }
    }
    std::memcpy(y + at, sum.data(), part * sizeof(float));
  }
}

}  // namespace paddle::kernels
