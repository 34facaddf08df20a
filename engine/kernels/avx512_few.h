// Products without panels. Of a few rows with a matrix that is read where it lies: packing it would
// cost more than it saves. With a matrix of a few columns, as sums of 16 lanes along k: a tile of C
// would be mostly empty.
#pragma once

#include <array>
#include <utility>
#include <vector>

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

// Elements of C that are computed together, up to as many each way.
constexpr std::size_t kFewColumnsTile = 4;

struct FewColumns {
  const float* a;  // lines along k
  std::size_t stride_a;
  const float* b;  // likewise
  std::size_t stride_b;
  float* c;
  std::size_t stride_c;
  std::size_t k;
  bool accumulate;
  Epilogue epilogue;  // its bias begins at the first column
};

// The masked shuffles leave nothing undefined, of which gcc 12 warns in _mm512_reduce_add_ps().
PADDLE_AVX512 inline float sum_of(__m512 x) {
  constexpr __mmask16 kAll = 0xffff;
  x = _mm512_add_ps(x, _mm512_maskz_shuffle_f32x4(kAll, x, x, 0x4e));
  x = _mm512_add_ps(x, _mm512_maskz_shuffle_f32x4(kAll, x, x, 0xb1));
  x = _mm512_add_ps(x, _mm512_maskz_permute_ps(kAll, x, 0x4e));
  x = _mm512_add_ps(x, _mm512_maskz_permute_ps(kAll, x, 0xb1));
  return _mm512_cvtss_f32(x);
}

template <std::size_t kRows, std::size_t kColumns>
PADDLE_AVX512 void multiply_few_columns(const FewColumns& product) {
  __m512 sums[kRows][kColumns];
#pragma GCC unroll 4
  for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kColumns; ++v) sums[r][v] = _mm512_setzero_ps();
  }
  for (std::size_t i = 0; i < product.k; i += kLanes) {
    const __mmask16 mask = first_lanes(product.k - i);
    __m512 columns[kColumns];
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kColumns; ++v) {
      columns[v] = _mm512_maskz_loadu_ps(mask, product.b + v * product.stride_b + i);
    }
#pragma GCC unroll 4
    for (std::size_t r = 0; r < kRows; ++r) {
      const __m512 row = _mm512_maskz_loadu_ps(mask, product.a + r * product.stride_a + i);
#pragma GCC unroll 4
      for (std::size_t v = 0; v < kColumns; ++v) {
        sums[r][v] = _mm512_fmadd_ps(row, columns[v], sums[r][v]);
      }
    }
  }
#pragma GCC unroll 4
  for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kColumns; ++v) {
      float& c = product.c[r * product.stride_c + v];
      float sum = sum_of(sums[r][v]);
      if (product.accumulate) sum = c + sum;
      if (product.epilogue.bias != nullptr) sum += product.epilogue.bias[v];
      c = product.epilogue.relu && sum < 0 ? 0 : sum;  // a NaN stays
    }
  }
}

using MultiplyFewColumns = void (*)(const FewColumns&);

template <std::size_t... kEach>
constexpr std::array<MultiplyFewColumns, sizeof...(kEach)> few_columns(
    std::index_sequence<kEach...>) {
  return {multiply_few_columns<kEach / kFewColumnsTile + 1, kEach % kFewColumnsTile + 1>...};
}

// As multiply_blocks, of m rows of A along k.
inline void multiply_narrow(const Source& a, const Source& b, std::size_t m, std::size_t n,
                            std::size_t k, bool accumulate, float* c, std::size_t stride_c,
                            const Epilogue& epilogue) {
  static constexpr auto kTiles =
      few_columns(std::make_index_sequence<kFewColumnsTile * kFewColumnsTile>());
  thread_local std::vector<float> lines;  // the columns of B, each along k
  const bool is_direct = b.along || n == 1;
  if (!is_direct) {
    lines.resize(std::max(lines.size(), n * k));
    for (std::size_t i = 0; i < k; ++i) {
      for (std::size_t column = 0; column < n; ++column) lines[column * k + i] = *b.at(column, i);
    }
  }
  const float* const from = is_direct ? b.data : lines.data();
  for (std::size_t row = 0; row < m; row += kFewColumnsTile) {
    const std::size_t rows = std::min(kFewColumnsTile, m - row);
    for (std::size_t column = 0; column < n; column += kFewColumnsTile) {
      const std::size_t columns = std::min(kFewColumnsTile, n - column);
      const float* const bias = epilogue.bias == nullptr ? nullptr : epilogue.bias + column;
      kTiles[(rows - 1) * kFewColumnsTile + columns - 1]({a.at(row, 0),
                                                          a.stride,
                                                          from + column * k,
                                                          k,
                                                          c + row * stride_c + column,
                                                          stride_c,
                                                          k,
                                                          accumulate,
                                                          {bias, epilogue.relu}});
    }
  }
}

}  // namespace paddle::kernels::avx512
