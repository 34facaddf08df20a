#include "engine/math/avx512_gemm.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "engine/math/avx512_lanes.h"
#include "engine/math/huge_pages.h"

namespace paddle::kernels {
namespace avx512 {
namespace {

// Packed panels of a matrix, in the order in which the products read them. A step of the innermost
// loop takes a lane from each row of A and column of B.

// Packs up to 16 lines of `values` values each into a panel whose steps are `step` lanes apart.
// Each step stores 16 lanes, with zeros for missing lines.
template <class Kind>
PADDLE_AVX512 void pack(const Source& source, std::size_t line, std::size_t lines, std::size_t k,
                        std::size_t values, std::size_t step, Lane* panel) {
  if (!source.along) {
    const __mmask16 mask = first_lanes(lines);
    const float* from = source.at(line, k);
    for (std::size_t i = 0; i < values; i += Kind::kValues, panel += step) {
      _mm512_storeu_si512(panel, Kind::load_across(from, source.stride, values - i, mask));
      from += Kind::kValues * source.stride;
    }
    return;
  }
  for (std::size_t i = 0; i < values; i += Kind::kValues * kLanes) {
    __m512i block[kLanes];
#pragma GCC unroll 16
    for (std::size_t j = 0; j < kLanes; ++j) {
      block[j] = j < lines ? Kind::load_along(source.at(line + j, k + i), values - i)
                           : _mm512_setzero_si512();
    }
    transpose(block);
    const std::size_t steps = std::min(kLanes, (values - i + Kind::kValues - 1) / Kind::kValues);
    if (steps == kLanes) {
#pragma GCC unroll 16
      for (std::size_t j = 0; j < kLanes; ++j) _mm512_storeu_si512(panel + j * step, block[j]);
    } else {
      for (std::size_t j = 0; j < steps; ++j) _mm512_storeu_si512(panel + j * step, block[j]);
    }
    panel += kLanes * step;
  }
}

// Products of panels.
//
// The scheme is that of Goto and van de Geijn, "Anatomy of high-performance matrix multiplication"
// (2008): blocks of A and B are packed into panels that fit the caches, in the order in which the
// innermost loop reads them. The innermost loop holds a tile of C in registers.

constexpr std::size_t kTileRows = 14;  // with kTileColumns: 28 of the 32 registers
constexpr std::size_t kTileColumns = 2 * kLanes;
constexpr std::size_t kDepthMax = 512;                       // steps: a panel of B is 64 KiB
constexpr std::size_t kBlockRowsMax = 38 * kTileRows;        // a block of A: 1064 KiB
constexpr std::size_t kBlockColumnsMax = 64 * kTileColumns;  // a block of B: 4 MiB
// The last store into a panel of A is a whole vector, which exceeds the panel.
constexpr std::size_t kPanelsA = kBlockRowsMax * kDepthMax + kLanes;
constexpr std::size_t kPanelsB = kBlockColumnsMax * kDepthMax;

// Rows of A in a block. One block is best, because each panel of B is then used just after it was
// packed. Several blocks take a quarter of this CPU's second-level cache each, which leaves room
// for a panel of B. No bit of a product depends on this.
std::size_t block_rows_of(std::size_t m) {
  static const std::size_t several = [] {
    constexpr std::size_t kTileBytes = kTileRows * kDepthMax * sizeof(Lane);
    const long found = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
    const std::size_t bytes = found > 0 ? static_cast<std::size_t>(found) : 1U << 20U;
    return std::min(std::max<std::size_t>(bytes / 4 / kTileBytes, 4) * kTileRows, kBlockRowsMax);
  }();
  return part_size(m, m <= kBlockRowsMax ? kBlockRowsMax : several, kTileRows);
}

// Lanes of A's rows, in a panel or in A itself.
struct RowLanes {
  const Lane* first;
  std::size_t row_stride;  // lanes
  std::size_t step_stride;
};

// Memory that will be packed next; each step prefetches one cache line of it.
struct Prefetch {
  const float* from;
  std::size_t stride;
};

// Operands of one tile of C.
struct Tile {
  RowLanes a;
  const Lane* next_a;  // the next tile's rows, packed or not yet; each step prefetches kLanes
  Prefetch ahead;
  const Lane* b;  // kTileColumns lanes per step
  std::size_t steps;
  float* c;
  std::size_t stride;
  std::size_t columns;
  bool accumulate;
  Epilogue epilogue;  // its bias begins at this tile's first column
};

template <std::size_t kRows, std::size_t kVectors, bool kHasEpilogue>
[[gnu::always_inline]] PADDLE_AVX512 inline void store(const Tile& tile,
                                                       const __m512 (&sums)[kRows][kVectors]) {
#pragma GCC unroll 2
  for (std::size_t v = 0; v < kVectors; ++v) {
    const __mmask16 mask = first_lanes(tile.columns - v * kLanes);
    const float* const bias = tile.epilogue.bias;
    const __m512 biases = kHasEpilogue && bias != nullptr
                              ? _mm512_maskz_loadu_ps(mask, bias + v * kLanes)
                              : _mm512_setzero_ps();
#pragma GCC unroll 16
    for (std::size_t r = 0; r < kRows; ++r) {
      float* c = tile.c + r * tile.stride + v * kLanes;
      __m512 sum = sums[r][v];
      if (tile.accumulate) sum = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, c), sum);
      if (kHasEpilogue && bias != nullptr) sum = _mm512_add_ps(sum, biases);
      // max returns its second operand when either is NaN, so a NaN sum stays.
      if (kHasEpilogue && tile.epilogue.relu) sum = _mm512_max_ps(_mm512_setzero_ps(), sum);
      _mm512_mask_storeu_ps(c, mask, sum);
    }
  }
}

template <class Kind, std::size_t kRows, std::size_t kVectors>
PADDLE_AVX512 void multiply_tile(const Tile& tile) {
  __m512 sums[kRows][kVectors];
#pragma GCC unroll 16
  for (std::size_t r = 0; r < kRows; ++r) {
    // Prefetch for writing: reading first and taking ownership later costs two round trips where
    // another core wrote the line last.
    __builtin_prefetch(tile.c + r * tile.stride, 1);
    __builtin_prefetch(tile.c + r * tile.stride + kTileColumns - 1, 1);
#pragma GCC unroll 2
    for (std::size_t v = 0; v < kVectors; ++v) sums[r][v] = _mm512_setzero_ps();
  }
  // Each base serves 5 rows, whose offsets fit an addressing mode, so no row needs a register of
  // its own.
  const std::size_t stride = tile.a.row_stride;
  const std::size_t stride3 = 3 * stride;
  const Lane* const first = tile.a.first;
  std::array<const Lane*, 3> bases{first, first + 5 * stride, first + 10 * stride};
  const Lane* next_a = tile.next_a;
  const float* ahead = tile.ahead.from;
  const Lane* b = tile.b;
  for (std::size_t i = 0; i < tile.steps; ++i, b += kTileColumns, next_a += kLanes) {
    // A block of A does not fit the first-level caches beside B.
    _mm_prefetch(reinterpret_cast<const char*>(next_a), _MM_HINT_T1);
    _mm_prefetch(reinterpret_cast<const char*>(ahead), _MM_HINT_T1);
    ahead += tile.ahead.stride;
    __m512i columns[kVectors];
#pragma GCC unroll 2
    for (std::size_t v = 0; v < kVectors; ++v) columns[v] = _mm512_loadu_si512(b + v * kLanes);
#pragma GCC unroll 16
    for (std::size_t r = 0; r < kRows; ++r) {
      const std::size_t offset = r % 5 == 3 ? stride3 : r % 5 * stride;
      int lane = 0;  // a float, where A is not packed
      std::memcpy(&lane, bases[r / 5] + offset, sizeof(lane));
      const __m512i row = _mm512_set1_epi32(lane);
#pragma GCC unroll 2
      for (std::size_t v = 0; v < kVectors; ++v) {
        sums[r][v] = Kind::multiply_add(sums[r][v], row, columns[v]);
      }
    }
#pragma GCC unroll 3
    for (const Lane*& base : bases) base += tile.a.step_stride;
  }
  if (tile.epilogue.bias == nullptr && !tile.epilogue.relu) {
    store<kRows, kVectors, false>(tile, sums);
  } else {
    store<kRows, kVectors, true>(tile, sums);
  }
}

using MultiplyTile = void (*)(const Tile&);

template <class Kind, std::size_t kVectors, std::size_t... kRowsLess1>
constexpr std::array<MultiplyTile, kTileRows> tile_functions(std::index_sequence<kRowsLess1...>) {
  return {multiply_tile<Kind, kRowsLess1 + 1, kVectors>...};
}

template <class Kind>
void multiply(const Tile& tile, std::size_t rows) {
  constexpr auto kAll = std::make_index_sequence<kTileRows>();
  static constexpr std::array<MultiplyTile, kTileRows> kNarrow = tile_functions<Kind, 1>(kAll);
  static constexpr std::array<MultiplyTile, kTileRows> kWide = tile_functions<Kind, 2>(kAll);
  (tile.columns <= kLanes ? kNarrow : kWide)[rows - 1](tile);
}

// Number of values of k after which a sum is added to C and starts at 0 again.
template <class Kind>
std::size_t depth_of(std::size_t k) {
  return part_size(k, kDepthMax * Kind::kValues, Kind::kValues);
}

// With fewer columns most of a tile is empty, and bfloat16 would gain nothing.
constexpr std::size_t kTileColumnsMin = 12;

static_assert(kPanelsA * sizeof(Lane) % 64 == 0);  // the panels of B begin on a cache line too

template <class Kind>
void multiply_blocks(const Source& a, const Source& b, std::size_t m, std::size_t n, std::size_t k,
                     bool accumulate, float* c, std::size_t stride_c, const Epilogue& epilogue) {
  // Each thread keeps its panels from product to product.
  thread_local LargeArray<Lane> panels(kPanelsA + kPanelsB);
  Lane* const panels_a = panels.data();
  Lane* const panels_b = panels_a + kPanelsA;
  const std::size_t depth = depth_of<Kind>(k);
  const std::size_t block_rows = block_rows_of(m);
  const std::size_t block_columns = part_size(n, kBlockColumnsMax, kTileColumns);
  // Rows of floats that run along k are lanes already and need no packing.
  const bool is_direct = a.along && Kind::kValues == 1;
  for (std::size_t column = 0; column < n; column += block_columns) {
    const std::size_t columns = std::min(block_columns, n - column);
    for (std::size_t first = 0; first < k; first += depth) {
      const std::size_t values = std::min(depth, k - first);
      const std::size_t steps = (values + Kind::kValues - 1) / Kind::kValues;
      for (std::size_t row = 0; row < m; row += block_rows) {
        const std::size_t rows = std::min(block_rows, m - row);
        for (std::size_t j = 0; j < columns; j += kTileColumns) {
          Lane* const panel_b = panels_b + (m > block_rows ? j * steps : 0);
          const std::size_t wide = std::min(kTileColumns, columns - j);
          const bool packs_a = !is_direct && j == 0;
          for (std::size_t v = 0; row == 0 && v < wide; v += kLanes) {
            pack<Kind>(b, column + j + v, std::min(kLanes, wide - v), first, values, kTileColumns,
                       panel_b + v);
          }
          Epilogue last;
          if (first + values == k) {
            last = {epilogue.bias == nullptr ? nullptr : epilogue.bias + column + j, epilogue.relu};
          }
          const auto rows_from = [&](std::size_t i) {
            return is_direct
                       ? RowLanes{reinterpret_cast<const Lane*>(a.at(row + i, first)), a.stride, 1}
                       : RowLanes{panels_a + i * steps, 1, kTileRows};
          };
          // The first tiles prefetch all of B's next panel, 2 cache lines for each k; tiles that
          // pack A prefetch the last line that the next one packs.
          const auto ahead = [&](std::size_t tile) -> Prefetch {
            const std::size_t last_row = (tile + 2) * kTileRows - 1;
            if (packs_a && tile >= 2 * Kind::kValues && !a.along && last_row < rows) {
              return {a.at(row + last_row, first), Kind::kValues * a.stride};
            }
            const bool is_one_piece = !b.along || values == b.stride;
            if (row > 0 || j + kTileColumns >= columns || tile >= 2 * Kind::kValues ||
                !is_one_piece) {
              return {b.at(column + j, first), 0};
            }
            const float* const from = b.at(column + j + kTileColumns, first);
            if (b.along) return {from + tile * steps * kLanes, kLanes};
            return {from + tile % 2 * kLanes + tile / 2 * b.stride, Kind::kValues * b.stride};
          };
          for (std::size_t i = 0; i < rows; i += kTileRows) {
            if (packs_a) {
              pack<Kind>(a, row + i, std::min(kTileRows, rows - i), first, values, kTileRows,
                         panels_a + i * steps);
            }
            const std::size_t next = i + kTileRows < rows ? i + kTileRows : 0;
            multiply<Kind>({rows_from(i), rows_from(next).first, ahead(i / kTileRows), panel_b,
                            steps, c + (row + i) * stride_c + column + j, stride_c, wide,
                            accumulate || first > 0, last},
                           std::min(kTileRows, rows - i));
          }
        }
      }
    }
  }
}

// Products without panels. If A has few rows, B is read without packing: packing would cost more
// than it saves. If B has few columns, elements of C are computed as sums of 16 lanes along k: a
// tile of C would be mostly empty.

constexpr std::size_t kFewRowsMax = 30;     // with more rows, packing saves time
constexpr std::size_t kFewTileRows = 6;     // with kFewTileVectors: 24 of the 32 registers
constexpr std::size_t kFewTileVectors = 4;  // 4 sums per row hide the latency of additions

// A product for a few adjacent rows of C, each of up to kFewTileVectors vectors.
struct FewRows {
  const float* a;  // lines along k
  std::size_t stride_a;
  const float* b;  // at the first column
  std::size_t stride_b;
  float* c;
  std::size_t stride_c;
  std::size_t columns;
  std::size_t k;
  std::size_t depth;  // result of depth_of()
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

// The same product as multiply_blocks(), for few rows. The columns of B stay in a cache from one
// tile of rows to the next. REQUIRES: a.along and not b.along.
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

// Largest number of rows, and of columns, of C that are computed together.
constexpr std::size_t kFewColumnsTile = 4;

struct FewColumns {
  const float* a;  // lines along k
  std::size_t stride_a;
  const float* b;  // lines along k
  std::size_t stride_b;
  float* c;
  std::size_t stride_c;
  std::size_t k;
  bool accumulate;
  Epilogue epilogue;  // its bias begins at the first column
};

// Sum of the 16 lanes. Masked shuffles, because gcc 12 warns of undefined values in
// _mm512_reduce_add_ps().
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

// The same product as multiply_blocks(), for few columns. REQUIRES: a.along.
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

}  // namespace
}  // namespace avx512

bool has_avx512_gemm(Compute compute) {
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512dq")) {
    return false;
  }
  return compute == Compute::kFloat32 || __builtin_cpu_supports("avx512bf16");
}

bool is_narrow(std::size_t n) {
  return n < avx512::kTileColumnsMin;
}

bool fits_avx512_gemm(Transpose transpose_a, std::size_t n) {
  return !is_narrow(n) || transpose_a == Transpose::kNo;
}

void avx512_gemm(Compute compute, Transpose transpose_a, Transpose transpose_b, std::size_t m,
                 std::size_t n, std::size_t k, const float* a, const float* b, bool accumulate,
                 float* c, std::size_t stride_c, const Epilogue& epilogue) {
  const bool a_along = transpose_a == Transpose::kNo;
  const bool b_along = transpose_b == Transpose::kYes;
  const avx512::Source from_a{a, a_along ? k : m, a_along};
  const avx512::Source from_b{b, b_along ? k : n, b_along};
  if (is_narrow(n)) {
    avx512::multiply_narrow(from_a, from_b, m, n, k, accumulate, c, stride_c, epilogue);
  } else if (compute == Compute::kBfloat16) {
    avx512::multiply_blocks<avx512::Bfloat16>(from_a, from_b, m, n, k, accumulate, c, stride_c,
                                              epilogue);
  } else if (m <= avx512::kFewRowsMax && a_along && !b_along) {
    avx512::multiply_unpacked(from_a, from_b, m, n, k, avx512::depth_of<avx512::Float32>(k),
                              accumulate, c, stride_c, epilogue);
  } else {
    avx512::multiply_blocks<avx512::Float32>(from_a, from_b, m, n, k, accumulate, c, stride_c,
                                             epilogue);
  }
}

}  // namespace paddle::kernels

#else

namespace paddle::kernels {

bool has_avx512_gemm(Compute) {
  return false;
}
bool is_narrow(std::size_t) {
  return false;
}
bool fits_avx512_gemm(Transpose, std::size_t) {
  return false;
}
void avx512_gemm(Compute, Transpose, Transpose, std::size_t, std::size_t, std::size_t, const float*,
                 const float*, bool, float*, std::size_t, const Epilogue&) {}

}  // namespace paddle::kernels

#endif
