#include "engine/math/row_wise.h"

#include <array>
#include <cmath>
#include <cstring>

#include "base/multiversion.h"
#include "engine/math/formulas.h"
#include "engine/math/portable_math.h"
#include "engine/math/rows.h"

namespace paddle::kernels {

PADDLE_MULTIVERSION
void layer_norm(std::size_t rows, std::size_t width, float epsilon, const float* __restrict x,
                const float* __restrict gain, const float* __restrict bias, float* __restrict y,
                float* __restrict statistics) {
  const auto count = static_cast<float>(width);
  for (std::size_t r = 0; r < rows; ++r, x += width, y += width, statistics += 2) {
    const float mean = lane_sum(width, [x](std::size_t c) { return x[c]; }) / count;
    const float variance =
        lane_sum(width, [x, mean](std::size_t c) { return (x[c] - mean) * (x[c] - mean); }) / count;
    const LayerNormRow row{mean, LayerNormRow::inverse_of(variance, epsilon)};
    for (std::size_t c = 0; c < width; ++c) y[c] = row.apply(x[c], gain[c], bias[c]);
    statistics[0] = row.mean;
    statistics[1] = row.inverse;
  }
}

PADDLE_MULTIVERSION
void layer_norm_backward(std::size_t rows, std::size_t width, const float* __restrict x,
                         const float* __restrict gain, const float* __restrict statistics,
                         const float* __restrict gradient, bool accumulate,
                         float* __restrict x_gradient, float* __restrict gain_gradient,
                         float* __restrict bias_gradient) {
  const auto count = static_cast<float>(width);
  for (std::size_t r = 0; r < rows; ++r) {
    const LayerNormRow row{statistics[0], statistics[1]};
    const float slope =
        lane_sum(width, [=](std::size_t c) { return gradient[c] * gain[c]; }) / count;
    const float tilt =
        lane_sum(width, [=](std::size_t c) { return gradient[c] * gain[c] * row.normal(x[c]); }) /
        count;
    for (std::size_t c = 0; c < width; ++c) {
      const float value = row.backward(x[c], gain[c], gradient[c], slope, tilt);
      x_gradient[c] = accumulate ? x_gradient[c] + value : value;
      gain_gradient[c] += gradient[c] * row.normal(x[c]);
      bias_gradient[c] += gradient[c];
    }
    x += width;
    x_gradient += width;
    gradient += width;
    statistics += 2;
  }
}

PADDLE_MULTIVERSION
void add_fields(std::size_t fields, std::size_t factors, const float* __restrict v,
                float* __restrict sums, float* __restrict squares) {
  for (std::size_t f = 0; f < fields; ++f, v += factors) {
    for (std::size_t c = 0; c < factors; ++c) {
      sums[c] += v[c];
      squares[c] += v[c] * v[c];
    }
  }
}

PADDLE_MULTIVERSION
float pair_sum(std::size_t factors, const float* sums, const float* squares) {
  return 0.5F * lane_sum(factors, [=](std::size_t c) { return pair_term_of(sums[c], squares[c]); });
}

PADDLE_MULTIVERSION
void pair_sum_backward(std::size_t fields, std::size_t factors, const float* __restrict v,
                       const float* __restrict sums, float slope, bool accumulate,
                       float* __restrict v_gradient) {
  for (std::size_t f = 0; f < fields; ++f, v += factors, v_gradient += factors) {
    for (std::size_t c = 0; c < factors; ++c) {
      const float value = pair_slope_of(sums[c], v[c], slope);
      v_gradient[c] = accumulate ? v_gradient[c] + value : value;
    }
  }
}

namespace {

using Half = float __attribute__((vector_size(kSumLanes / 2 * sizeof(float))));

// sum[k] += a[k] * b[k]
[[gnu::always_inline]] inline void add_products(Half& sum, const float* a, const float* b) {
  Half from_a;
  Half from_b;
  std::memcpy(&from_a, a, sizeof from_a);
  std::memcpy(&from_b, b, sizeof from_b);
  sum += from_a * from_b;
}

// lane_sum() of the products, with the lanes in registers. An array of lanes would go through
// memory, which takes several times as long as a dot product of a few dozen floats.
[[gnu::always_inline]] inline float dot_of(std::size_t width, const float* a, const float* b) {
  constexpr std::size_t kHalf = kSumLanes / 2;
  Half low{};
  Half high{};
  std::size_t i = 0;
  for (; i + kSumLanes <= width; i += kSumLanes) {
    add_products(low, a + i, b + i);
    add_products(high, a + i + kHalf, b + i + kHalf);
  }
  if (i < width) {  // zeros for missing terms change no lane
    std::array<std::array<float, kSumLanes>, 2> rest{};
    std::memcpy(rest[0].data(), a + i, (width - i) * sizeof(float));
    std::memcpy(rest[1].data(), b + i, (width - i) * sizeof(float));
    add_products(low, rest[0].data(), rest[1].data());
    add_products(high, rest[0].data() + kHalf, rest[1].data() + kHalf);
  }
  low += high;
  const auto eight = __builtin_shufflevector(low, low, 0, 1, 2, 3, 4, 5, 6, 7) +
                     __builtin_shufflevector(low, low, 8, 9, 10, 11, 12, 13, 14, 15);
  const auto four = __builtin_shufflevector(eight, eight, 0, 1, 2, 3) +
                    __builtin_shufflevector(eight, eight, 4, 5, 6, 7);
  return (four[0] + four[2]) + (four[1] + four[3]);
}

}  // namespace

PADDLE_MULTIVERSION
float dot(std::size_t width, const float* a, const float* b) {
  return dot_of(width, a, b);
}

PADDLE_MULTIVERSION
void dots(std::size_t width, const float* x, const float* table, std::size_t count,
          const std::uint32_t* rows, std::size_t stride, float* out) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t row = rows[i * stride];
    out[i] = row == kNoRow ? 0 : dot_of(width, x, table + row * width);
  }
}

PADDLE_MULTIVERSION
void dots_backward(std::size_t width, const float* __restrict x, const float* __restrict table,
                   std::size_t count, const std::uint32_t* rows, std::size_t stride,
                   const float* slopes, float* __restrict x_gradient,
                   float* __restrict table_gradient) {
  constexpr std::size_t kVectors = 4;  // of x and of its gradient, in registers
  constexpr std::size_t kFloats = kSumLanes / 2;
  std::size_t c = 0;
  for (; c + kVectors * kFloats <= width; c += kVectors * kFloats) {
    Half values[kVectors];
    Half gradient[kVectors];
    std::memcpy(values, x + c, sizeof(values));
    std::memcpy(gradient, x_gradient + c, sizeof(gradient));
    for (std::size_t i = 0; i < count; ++i) {
      if (rows[i * stride] == kNoRow) continue;
      const std::size_t at = rows[i * stride] * width + c;
      const float slope = slopes[i];
#pragma GCC unroll 4
      for (std::size_t v = 0; v < kVectors; ++v) {
        Half row, row_gradient;
        std::memcpy(&row, table + at + v * kFloats, sizeof(row));
        std::memcpy(&row_gradient, table_gradient + at + v * kFloats, sizeof(row));
        gradient[v] += slope * row;
        row_gradient += slope * values[v];
        std::memcpy(table_gradient + at + v * kFloats, &row_gradient, sizeof(row));
      }
    }
    std::memcpy(x_gradient + c, gradient, sizeof(gradient));
  }
  if (c == width) return;
  for (std::size_t i = 0; i < count; ++i) {
    if (rows[i * stride] == kNoRow) continue;
    const std::size_t at = rows[i * stride] * width;
    const float slope = slopes[i];
    for (std::size_t rest = c; rest < width; ++rest) {
      x_gradient[rest] += slope * table[at + rest];
      table_gradient[at + rest] += slope * x[rest];
    }
  }
}

Cosine cosine(std::size_t width, const float* a, const float* b) {
  return {dot(width, a, b), std::sqrt(dot(width, a, a)), std::sqrt(dot(width, b, b))};
}

PADDLE_MULTIVERSION
void cosine_backward(std::size_t width, const Cosine& of, float slope, const float* __restrict a,
                     const float* __restrict b, bool accumulate, float* __restrict a_gradient) {
  const CosineSlope along(of, slope);
  for (std::size_t c = 0; c < width; ++c) {
    const float value = along.apply(a[c], b[c]);
    a_gradient[c] = accumulate ? a_gradient[c] + value : value;
  }
}

}  // namespace paddle::kernels
