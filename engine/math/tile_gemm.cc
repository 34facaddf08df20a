#include "engine/math/tile_gemm.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/math/avx512_gemm.h"
#include "engine/math/avx512_lanes.h"
#include "engine/math/huge_pages.h"

#define PADDLE_TILES \
  __attribute__((    \
      target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,fma,prfchw,amx-tile,amx-bf16")))

namespace paddle::kernels {
namespace tiles {
namespace {

using avx512::first_lanes;
using avx512::kLanes;
using avx512::Lane;
using avx512::Source;

// A CPU has eight tiles, each of up to 16 rows of 64 bytes. One instruction adds the product of a
// tile of A (16 rows of 32 bfloat16 along k) and a tile of B (16 pairs along k of 16 columns) to a
// tile of C (16 rows of 16 floats).
//
//                   B: tiles 6, 7
//   A: tile 4       C: tiles 0, 1
//      tile 5          tiles 2, 3
//
// A lane of A's tile j is a row's values 2j and 2j + 1 along k, one of B's a column's. Four tiles
// of C and two of each factor: each tile that is loaded is used twice.
constexpr std::size_t kTileRows = 16;
constexpr std::size_t kTileLanes = kTileRows * kLanes;  // 1 KiB
constexpr std::size_t kTileValues = 2 * kLanes;         // along k
constexpr std::size_t kStripRows = 2 * kTileRows;       // of A and C, computed together
constexpr std::size_t kPanelColumns = 2 * kLanes;       // of B and C, computed together

// A strip of A stays in the first-level cache (32 KiB), while the panels of B come from the second
// (1 MiB).
constexpr std::size_t kStripLanes = 8192;
constexpr std::size_t kBlockLanes = 32 * kStripLanes;
template <std::size_t kParts>
constexpr std::size_t kDepthMax = (kStripLanes / kStripRows / kParts / kLanes) * kTileValues;
constexpr std::size_t kBlockColumnsMax = 32 * kPanelColumns;

// bfloat16 parts of 32 values of a line: the first is nearest to the value, each later one to what
// is left of it. `values` of them exist.
template <std::size_t kParts>
PADDLE_TILES inline void parts_along(const float* line, std::size_t values, Lane* parts,
                                     std::size_t apart) {
  __m512 low = _mm512_maskz_loadu_ps(first_lanes(values), line);
  __m512 high = values <= kLanes
                    ? _mm512_setzero_ps()
                    : _mm512_maskz_loadu_ps(first_lanes(values - kLanes), line + kLanes);
#pragma GCC unroll 3
  for (std::size_t part = 0; part < kParts; ++part) {
    const auto both = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
    _mm512_store_si512(parts + part * apart, both);
    if (part + 1 == kParts) break;
    const __m512i of_low = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(both));
    const __m512i of_high = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(both, 1));
    low = _mm512_sub_ps(low, _mm512_castsi512_ps(_mm512_slli_epi32(of_low, 16)));
    high = _mm512_sub_ps(high, _mm512_castsi512_ps(_mm512_slli_epi32(of_high, 16)));
  }
}

// As parts_along(), of two neighbours along k of each line in `mask`; `values` of them exist.
template <std::size_t kParts>
PADDLE_TILES inline void parts_across(const float* from, std::size_t stride, std::size_t values,
                                      __mmask16 mask, Lane* parts, std::size_t apart) {
  __m512 first = _mm512_maskz_loadu_ps(mask, from);
  __m512 second = values == 1 ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(mask, from + stride);
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000U));
#pragma GCC unroll 3
  for (std::size_t part = 0; part < kParts; ++part) {
    const auto firsts = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(first));
    const auto seconds = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(second));
    const __m512i pairs = _mm512_or_si512(_mm512_cvtepu16_epi32(firsts),
                                          _mm512_slli_epi32(_mm512_cvtepu16_epi32(seconds), 16));
    _mm512_store_si512(parts + part * apart, pairs);
    if (part + 1 == kParts) break;
    first = _mm512_sub_ps(first, _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16)));
    second = _mm512_sub_ps(second, _mm512_castsi512_ps(_mm512_and_si512(pairs, upper)));
  }
}

PADDLE_TILES inline void transpose_tile(Lane* tile) {
  __m512i rows[kLanes];
#pragma GCC unroll 16
  for (std::size_t i = 0; i < kLanes; ++i) rows[i] = _mm512_load_si512(tile + i * kLanes);
  avx512::transpose(rows);
#pragma GCC unroll 16
  for (std::size_t i = 0; i < kLanes; ++i) _mm512_store_si512(tile + i * kLanes, rows[i]);
}

// Packs up to 16 lines of up to 32 values each into tiles, one for each part, `apart` lanes from
// each other. What is missing becomes 0. The rows of a tile are the lines (of A), or pairs of
// values of all lines (of B).
template <std::size_t kParts>
PADDLE_TILES void pack_tiles(const Source& source, bool by_line, std::size_t line,
                             std::size_t lines, std::size_t k, std::size_t values, Lane* tile,
                             std::size_t apart) {
  for (std::size_t row = 0; row < kTileRows; ++row) {
    Lane* const to = tile + row * kLanes;
    if (source.along && row < lines) {
      parts_along<kParts>(source.at(line + row, k), values, to, apart);
    } else if (!source.along && 2 * row < values) {
      parts_across<kParts>(source.at(line, k + 2 * row), source.stride, values - 2 * row,
                           first_lanes(lines), to, apart);
    } else {
      for (std::size_t part = 0; part < kParts; ++part) {
        _mm512_store_si512(to + part * apart, _mm512_setzero_si512());
      }
    }
  }
  if (source.along == by_line) return;
  for (std::size_t part = 0; part < kParts; ++part) transpose_tile(tile + part * apart);
}

// Packs up to 32 lines (one or two tiles of them) along `values` values. In memory: for each 32
// values, for each part, the tiles.
template <std::size_t kParts>
void pack(const Source& source, bool by_line, std::size_t line, std::size_t lines, std::size_t k,
          std::size_t values, Lane* to) {
  const std::size_t count = lines <= kTileRows ? 1 : 2;
  for (std::size_t i = 0; i < values; i += kTileValues) {
    for (std::size_t tile = 0; tile < count; ++tile) {
      const std::size_t from = tile * kTileRows;
      pack_tiles<kParts>(source, by_line, line + from, std::min(kTileRows, lines - from), k + i,
                         std::min(kTileValues, values - i), to + tile * kTileLanes,
                         count * kTileLanes);
    }
    to += kParts * count * kTileLanes;
  }
}

// Operand of LDTILECFG.
struct alignas(64) TileShapes {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::array<std::uint8_t, 14> reserved{};
  std::array<std::uint16_t, 16> row_bytes{};
  std::array<std::uint8_t, 16> rows{};
};
static_assert(sizeof(TileShapes) == 64);

// Configures the tiles of this thread for strips of this many rows.
PADDLE_TILES void configure(std::size_t rows) {
  const auto upper = static_cast<std::uint8_t>(std::min(rows, kTileRows));
  const auto lower = static_cast<std::uint8_t>(rows - upper);
  TileShapes shapes;
  const std::array<std::uint8_t, 8> all{upper, upper, lower, lower, upper, lower, 16, 16};
  for (std::size_t tile = 0; tile < all.size(); ++tile) {
    shapes.rows[tile] = all[tile];
    shapes.row_bytes[tile] = all[tile] == 0 ? 0 : 64;
  }
  // Not _tile_loadconfig(): gcc 12 takes it for a read of the first 8 bytes.
  __asm__ volatile("ldtilecfg %0" : : "m"(shapes));
}

PADDLE_TILES void release() {
  _tile_release();
}

// gcc 12 does not know that a tile load reads memory, so it could move stores behind it.
inline void order_stores() {
  __asm__ volatile("" ::: "memory");
}

// Adds the product of a strip and a panel to `c`, or sets it.
template <std::size_t kParts, bool kTwoRows, bool kTwoColumns>
PADDLE_TILES void multiply(const Lane* a, const Lane* b, std::size_t steps, bool adds, float* c,
                           std::size_t stride) {
  constexpr int kLine = kLanes * sizeof(Lane);
  constexpr std::size_t kStepA = (kTwoRows ? 2 : 1) * kTileLanes;
  constexpr std::size_t kStepB = (kTwoColumns ? 2 : 1) * kTileLanes;
  const std::size_t row = stride * sizeof(float);
  float* const lower = c + kTileRows * stride;
  order_stores();
  if (adds) {
    _tile_loadd(0, c, row);
    if constexpr (kTwoColumns) _tile_loadd(1, c + kLanes, row);
    if constexpr (kTwoRows) _tile_loadd(2, lower, row);
    if constexpr (kTwoRows && kTwoColumns) _tile_loadd(3, lower + kLanes, row);
  } else {
    _tile_zero(0);
    if constexpr (kTwoColumns) _tile_zero(1);
    if constexpr (kTwoRows) _tile_zero(2);
    if constexpr (kTwoRows && kTwoColumns) _tile_zero(3);
  }
  for (std::size_t step = 0; step < steps; ++step) {
    for (std::size_t part = 0; part < kParts; ++part) {
      _tile_loadd(4, a + part * kStepA, kLine);
      if constexpr (kTwoRows) _tile_loadd(5, a + part * kStepA + kTileLanes, kLine);
      for (std::size_t other = 0; other < kParts - part; ++other) {
        _tile_loadd(6, b + other * kStepB, kLine);
        _tile_dpbf16ps(0, 4, 6);
        if constexpr (kTwoRows) _tile_dpbf16ps(2, 5, 6);
        if constexpr (kTwoColumns) {
          _tile_loadd(7, b + other * kStepB + kTileLanes, kLine);
          _tile_dpbf16ps(1, 4, 7);
          if constexpr (kTwoRows) _tile_dpbf16ps(3, 5, 7);
        }
      }
    }
    a += kParts * kStepA;
    b += kParts * kStepB;
  }
  _tile_stored(0, c, row);
  if constexpr (kTwoColumns) _tile_stored(1, c + kLanes, row);
  if constexpr (kTwoRows) _tile_stored(2, lower, row);
  if constexpr (kTwoRows && kTwoColumns) _tile_stored(3, lower + kLanes, row);
  order_stores();
}

// A strip's rows by a panel's columns of C.
struct Output {
  float* c;
  std::size_t stride;
  std::size_t rows;
  std::size_t columns;
  bool adds;
  Epilogue epilogue;  // its bias begins at the first column
};

template <std::size_t kParts>
void multiply(const Lane* a, const Lane* b, std::size_t steps, const Output& output) {
  const bool two_rows = output.rows > kTileRows;
  const bool two_columns = output.columns > kLanes;
  const auto function =
      two_rows ? (two_columns ? multiply<kParts, true, true> : multiply<kParts, true, false>)
               : (two_columns ? multiply<kParts, false, true> : multiply<kParts, false, false>);
  function(a, b, steps, output.adds, output.c, output.stride);
}

// Computes an output whose columns do not fill tiles, or which has an epilogue, in a buffer.
template <std::size_t kParts>
PADDLE_TILES void multiply_in_buffer(const Lane* a, const Lane* b, std::size_t steps,
                                     const Output& output) {
  alignas(64) float buffer[kStripRows * kPanelColumns];
  const auto [c, stride, rows, columns, adds, epilogue] = output;
  for (std::size_t row = 0; adds && row < rows; ++row) {
    for (std::size_t j = 0; j < columns; j += kLanes) {
      _mm512_store_ps(buffer + row * kPanelColumns + j,
                      _mm512_maskz_loadu_ps(first_lanes(columns - j), c + row * stride + j));
    }
  }
  Output in_buffer = output;
  in_buffer.c = buffer;
  in_buffer.stride = kPanelColumns;
  multiply<kParts>(a, b, steps, in_buffer);
  for (std::size_t j = 0; j < columns; j += kLanes) {
    const __mmask16 mask = first_lanes(columns - j);
    const __m512 bias = epilogue.bias == nullptr ? _mm512_setzero_ps()
                                                 : _mm512_maskz_loadu_ps(mask, epilogue.bias + j);
    for (std::size_t row = 0; row < rows; ++row) {
      __m512 sum = _mm512_load_ps(buffer + row * kPanelColumns + j);
      if (epilogue.bias != nullptr) sum = _mm512_add_ps(sum, bias);
      // max returns its second operand when either is NaN, so a NaN sum stays.
      if (epilogue.relu) sum = _mm512_max_ps(_mm512_setzero_ps(), sum);
      _mm512_mask_storeu_ps(c + row * stride + j, mask, sum);
    }
  }
}

template <std::size_t kParts>
void multiply_blocks(const Source& a, const Source& b, std::size_t m, std::size_t n, std::size_t k,
                     bool accumulate, float* c, std::size_t stride_c, const Epilogue& epilogue) {
  // Each thread keeps its panels from product to product.
  thread_local LargeArray<Lane> panels(kBlockLanes + kStripLanes);
  Lane* const block = panels.data();
  Lane* const strip = block + kBlockLanes;
  const std::size_t depth = avx512::part_size(k, kDepthMax<kParts>, kTileValues);
  const std::size_t block_columns = avx512::part_size(n, kBlockColumnsMax, kPanelColumns);
  for (std::size_t column = 0; column < n; column += block_columns) {
    const std::size_t columns = std::min(block_columns, n - column);
    for (std::size_t first = 0; first < k; first += depth) {
      const std::size_t values = std::min(depth, k - first);
      const std::size_t steps = (values + kTileValues - 1) / kTileValues;
      const std::size_t panel_lanes = steps * kParts * 2 * kTileLanes;
      const bool is_last = first + values == k;
      for (std::size_t j = 0; j < columns; j += kPanelColumns) {
        pack<kParts>(b, false, column + j, std::min(kPanelColumns, columns - j), first, values,
                     block + j / kPanelColumns * panel_lanes);
      }
      for (std::size_t row = 0; row < m; row += kStripRows) {
        const std::size_t rows = std::min(kStripRows, m - row);
        if (row == 0 || rows < kStripRows) configure(rows);
        pack<kParts>(a, true, row, rows, first, values, strip);
        float* const c_strip = c + row * stride_c + column;
        for (std::size_t j = 0; j < columns; j += kPanelColumns) {
          const float* const bias =
              is_last && epilogue.bias != nullptr ? epilogue.bias + column + j : nullptr;
          const Output output{c_strip + j,
                              stride_c,
                              rows,
                              std::min(kPanelColumns, columns - j),
                              accumulate || first > 0,
                              {bias, is_last && epilogue.relu}};
          const Lane* const panel = block + j / kPanelColumns * panel_lanes;
          if (output.columns % kLanes == 0 && bias == nullptr && !output.epilogue.relu) {
            multiply<kParts>(strip, panel, steps, output);
          } else {
            multiply_in_buffer<kParts>(strip, panel, steps, output);
          }
        }
      }
    }
  }
  // Empty tiles cost a switch to another thread nothing.
  release();
}

template <std::size_t kParts>
void multiply(Transpose transpose_a, Transpose transpose_b, std::size_t m, std::size_t n,
              std::size_t k, const float* a, const float* b, bool accumulate, float* c,
              std::size_t stride_c, const Epilogue& epilogue) {
  const bool a_along = transpose_a == Transpose::kNo;
  const bool b_along = transpose_b == Transpose::kYes;
  multiply_blocks<kParts>({a, a_along ? k : m, a_along}, {b, b_along ? k : n, b_along}, m, n, k,
                          accumulate, c, stride_c, epilogue);
}

// Asks Linux for the registers of tiles, which a process does not have by itself
// (Documentation/arch/x86/xstate.rst). Threads that it starts have them too.
bool may_use_tiles() {
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;               // XFEATURE_XTILEDATA
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

bool has_tile_units() {
  constexpr unsigned kBfloat16 = 1U << 22U;  // of EDX, as is the next
  constexpr unsigned kTiles = 1U << 24U;
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  return (d & kBfloat16) != 0 && (d & kTiles) != 0;
}

}  // namespace
}  // namespace tiles

bool has_tile_gemm() {
  static const bool has =
      tiles::has_tile_units() && has_avx512_gemm(Compute::kBfloat16) && tiles::may_use_tiles();
  return has;
}

void tile_gemm(Transpose transpose_a, Transpose transpose_b, std::size_t m, std::size_t n,
               std::size_t k, const float* a, const float* b, bool accumulate, float* c,
               std::size_t stride_c, const Epilogue& epilogue) {
  tiles::multiply<1>(transpose_a, transpose_b, m, n, k, a, b, accumulate, c, stride_c, epilogue);
}

void tile_gemm_of_parts(Transpose transpose_a, Transpose transpose_b, std::size_t m, std::size_t n,
                        std::size_t k, const float* a, const float* b, bool accumulate, float* c,
                        std::size_t stride_c, const Epilogue& epilogue) {
  tiles::multiply<3>(transpose_a, transpose_b, m, n, k, a, b, accumulate, c, stride_c, epilogue);
}

}  // namespace paddle::kernels

#else

namespace paddle::kernels {

bool has_tile_gemm() {
  return false;
}
void tile_gemm(Transpose, Transpose, std::size_t, std::size_t, std::size_t, const float*,
               const float*, bool, float*, std::size_t, const Epilogue&) {}
void tile_gemm_of_parts(Transpose, Transpose, std::size_t, std::size_t, std::size_t, const float*,
                        const float*, bool, float*, std::size_t, const Epilogue&) {}

}  // namespace paddle::kernels

#endif
