#include "engine/kernels/bf16.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/multiversion.h"
#include "engine/kernels/bf16_formulas.h"

namespace paddle::kernels {
namespace {

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
