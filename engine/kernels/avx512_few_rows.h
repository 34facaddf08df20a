// Products of a few rows with a matrix that is read where it lies: packing it into panels would
// cost more than they save.
#pragma once

#include <array>
#include <utility>

#include "engine/kernels/avx512_panels.h"
#include "engine/kernels/gemm.h"

namespace paddle::kernels::avx512 {

constexpr std::size_t kFewRowsMax = 30;     // from here on panels are paid for
constexpr std::size_t kFewTileRows = 6;     // with kFewTileVectors: 24 of the 32 registers
constexpr std::size_t kFewTileVectors = 4;  // so many sums hide the latency of one row's additions

// Rows of C that lie side by side, of up to kFewTileVectors vectors.
struct FewRows {
  const float* a;  // lines along k
  std::size_t stride_a;
  const float* b;  // at the first column
  std::size_t stride_b;
  float* c;
  std::size_t stride_c;
  std::size_t columns;
  std::size_t k;
  std::size_t depth;  // values of k after which a sum goes to C and begins anew
  bool accumulate;
  Epilogue epilogue;  // its bias begins at the first column
};

template <std::size_t kRows>
PADDLE_AVX512 void multiply_few_rows(const FewRows& product) {
  constexpr std::size_t kAhead = 8;  // steps
  __mmask16 masks[kFewTileVectors];
#pragma GCC unroll 4
  for (std::size_t v = 0; v < kFewTileVectors; ++v) {
    masks[v] = first_lanes(product.columns - std::min(product.columns, v * kLanes));
  }
  for (std::size_t first = 0; first < product.k; first += product.depth) {
    const std::size_t steps = std::min(product.depth, product.k - first);
    __m512 sums[kRows][kFewTileVectors];
#pragma GCC unroll 6
    for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (std::size_t v = 0; v < kFewTileVectors; ++v) sums[r][v] = _mm512_setzero_ps();
    }
    const float* row = product.a + first;
    const float* b = product.b + first * product.stride_b;
    for (std::size_t i = 0; i < steps; ++i, ++row, b += product.stride_b) {
      __m512 columns[kFewTileVectors];
#pragma GCC unroll 4
      for (std::size_t v = 0; v < kFewTileVectors; ++v) {
        _mm_prefetch(reinterpret_cast<const char*>(b + kAhead * product.stride_b + v * kLanes),
                     _MM_HINT_T0);
        columns[v] = _mm512_maskz_loadu_ps(masks[v], b + v * kLanes);
      }
#pragma GCC unroll 6
      for (std::size_t r = 0; r < kRows; ++r) {
        const __m512 factor = _mm512_set1_ps(row[r * product.stride_a]);
#pragma GCC unroll 4
        for (std::size_t v = 0; v < kFewTileVectors; ++v) {
          sums[r][v] = _mm512_fmadd_ps(factor, columns[v], sums[r][v]);
        }
      }
    }
    const bool adds = product.accumulate || first > 0;
    const bool is_last = first + steps == product.k;
    const float* const bias = is_last ? product.epilogue.bias : nullptr;
#pragma GCC unroll 6
    for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (std::size_t v = 0; v < kFewTileVectors; ++v) {
        float* const c = product.c + r * product.stride_c + v * kLanes;
        __m512 sum = sums[r][v];
        if (adds) sum = _mm512_add_ps(_mm512_maskz_loadu_ps(masks[v], c), sum);
        if (bias != nullptr) {
          sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(masks[v], bias + v * kLanes));
        }
        // max returns its second operand when either is NaN, so a NaN sum stays.
        if (is_last && product.epilogue.relu) sum = _mm512_max_ps(_mm512_setzero_ps(), sum);
        _mm512_mask_storeu_ps(c, masks[v], sum);
      }
    }
  }
}

using MultiplyFewRows = void (*)(const FewRows&);

template <std::size_t... kRowsLess1>
constexpr std::array<MultiplyFewRows, kFewTileRows> few_rows(std::index_sequence<kRowsLess1...>) {
  return {multiply_few_rows<kRowsLess1 + 1>...};
}

// As multiply_blocks, of m rows of A along k, and B across: its columns stay in a cache from one
// tile of rows to the next.
inline void multiply_unpacked(const Source& a, const Source& b, std::size_t m, std::size_t n,
                              std::size_t k, std::size_t depth, bool accumulate, float* c,
                              std::size_t stride_c, const Epilogue& epilogue) {
  static constexpr auto kTiles = few_rows(std::make_index_sequence<kFewTileRows>());
  constexpr std::size_t kWide = kFewTileVectors * kLanes;
  for (std::size_t column = 0; column < n; column += kWide) {
    const float* const bias = epilogue.bias == nullptr ? nullptr : epilogue.bias + column;
    for (std::size_t row = 0; row < m; row += kFewTileRows) {
      kTiles[std::min(kFewTileRows, m - row) - 1]({a.at(row, 0),
                                                   a.stride,
                                                   b.at(column, 0),
                                                   b.stride,
                                                   c + row * stride_c + column,
                                                   stride_c,
                                                   std::min(kWide, n - column),
                                                   k,
                                                   depth,
                                                   accumulate,
                                                   {bias, epilogue.relu}});
    }
  }
}

}  // namespace paddle::kernels::avx512
