#include "engine/kernels/avx512_gemm.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "engine/kernels/avx512_few.h"
#include "engine/kernels/avx512_panels.h"
#include "engine/memory/huge_pages.h"

// The scheme is that of Goto and van de Geijn, "Anatomy of high-performance matrix multiplication"
// (2008): blocks of A and B are packed into panels that fit the caches, in the order in which the
// innermost loop reads them; it holds a tile of C in registers.
namespace paddle::kernels {
namespace avx512 {
namespace {

constexpr std::size_t kTileRows = 14;  // with kTileColumns: 28 of the 32 registers
constexpr std::size_t kTileColumns = 2 * kLanes;
constexpr std::size_t kDepthMax = 512;                       // steps: a panel of B is 64 KiB
constexpr std::size_t kBlockRowsMax = 38 * kTileRows;        // of A: 1064 KiB
constexpr std::size_t kBlockColumnsMax = 64 * kTileColumns;  // of B: 4 MiB
// The last store into a panel of A is a whole vector, which exceeds the panel.
constexpr std::size_t kPanelsA = kBlockRowsMax * kDepthMax + kLanes;
constexpr std::size_t kPanelsB = kBlockColumnsMax * kDepthMax;

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
  const Lane* b;  // kTileColumns lanes a step
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

// Size of nearly equal parts of `total`: at most `most`, and a multiple of `unit`.
std::size_t part_size(std::size_t total, std::size_t most, std::size_t unit) {
  const std::size_t parts = (total + most - 1) / most;
  const std::size_t even = (total + parts - 1) / parts;
  return (even + unit - 1) / unit * unit;
}

// Values of k after which a sum goes to C and begins anew.
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
  const std::size_t block_rows = part_size(m, kBlockRowsMax, kTileRows);
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

}  // namespace
}  // namespace avx512

bool has_avx512_gemm(Compute compute) {
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512dq")) {
    return false;
  }
  return compute == Compute::kFloat32 || __builtin_cpu_supports("avx512bf16");
}

bool fits_avx512_gemm(Transpose transpose_a, std::size_t n) {
  return n >= avx512::kTileColumnsMin || transpose_a == Transpose::kNo;
}

void avx512_gemm(Compute compute, Transpose transpose_a, Transpose transpose_b, std::size_t m,
                 std::size_t n, std::size_t k, const float* a, const float* b, bool accumulate,
                 float* c, std::size_t stride_c, const Epilogue& epilogue) {
  const bool a_along = transpose_a == Transpose::kNo;
  const bool b_along = transpose_b == Transpose::kYes;
  const avx512::Source from_a{a, a_along ? k : m, a_along};
  const avx512::Source from_b{b, b_along ? k : n, b_along};
  if (n < avx512::kTileColumnsMin) {
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
bool fits_avx512_gemm(Transpose, std::size_t) {
  return false;
}
void avx512_gemm(Compute, Transpose, Transpose, std::size_t, std::size_t, std::size_t, const float*,
                 const float*, bool, float*, std::size_t, const Epilogue&) {}

}  // namespace paddle::kernels

#endif
