// Packed panels of a matrix for products on AVX-512, in the order in which the products read them.
//
// A step of the innermost loop takes a lane of 32 bits from each row of A and column of B: one
// float, or two bfloat16 that are neighbours along k.
#pragma once

// gcc 12's own header triggers this warning.
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

// An attribute of functions, not a flag of the file: with a flag, the linker could keep this file's
// AVX-512 copy of another header's inline function for the whole program. Only Bfloat16's functions
// emit bfloat16 instructions.
#define PADDLE_AVX512 \
  __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,fma,prfchw")))

namespace paddle::kernels::avx512 {

constexpr std::size_t kLanes = 16;  // of 32 bits in a vector

using Lane = std::uint32_t;

inline __mmask16 first_lanes(std::size_t count) {
  return static_cast<__mmask16>(count >= kLanes ? 0xffffU : (1U << count) - 1U);
}

// Loading and multiplying of float32 lanes.
struct Float32 {
  static constexpr std::size_t kValues = 1;  // per lane
  // 16 lanes of a row that runs along k; only the first `values` values exist.
  PADDLE_AVX512 static __m512i load_along(const float* row, std::size_t values) {
    return _mm512_castps_si512(_mm512_maskz_loadu_ps(first_lanes(values), row));
  }
  // One lane from each of the adjacent rows or columns in `mask`; `values` steps of k are left.
  PADDLE_AVX512 static __m512i load_across(const float* from, std::size_t, std::size_t,
                                           __mmask16 mask) {
    return _mm512_castps_si512(_mm512_maskz_loadu_ps(mask, from));
  }
  PADDLE_AVX512 static __m512 multiply_add(__m512 sum, __m512i a, __m512i b) {
    return _mm512_fmadd_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), sum);
  }
};

struct Bfloat16 {
  static constexpr std::size_t kValues = 2;
  PADDLE_AVX512 static __m512i load_along(const float* row, std::size_t values) {
    const __m512 low = _mm512_maskz_loadu_ps(first_lanes(values), row);
    const __m512 high = values <= kLanes
                            ? _mm512_setzero_ps()
                            : _mm512_maskz_loadu_ps(first_lanes(values - kLanes), row + kLanes);
    return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
  }
  PADDLE_AVX512 static __m512i load_across(const float* from, std::size_t stride,
                                           std::size_t values, __mmask16 mask) {
    const __m512i low = widen(_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, from)));
    if (values == 1) return low;
    const __m512i high = widen(_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, from + stride)));
    return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
  }
  PADDLE_AVX512 static __m512 multiply_add(__m512 sum, __m512i a, __m512i b) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
  }

 private:
  PADDLE_AVX512 static __m512i widen(__m256bh values) {
    return _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(values));
  }
};

PADDLE_AVX512 inline void transpose(__m512i (&r)[kLanes]) {
  __m512i t[kLanes];
#pragma GCC unroll 16
  for (std::size_t i = 0; i < kLanes; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
#pragma GCC unroll 16
  for (std::size_t i = 0; i < kLanes; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
#pragma GCC unroll 16
  for (std::size_t i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
  }
#pragma GCC unroll 16
  for (std::size_t i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
    r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
  }
}

// A matrix as panels see it: a line is a row of A or a column of B, and k runs across the lines.
struct Source {
  const float* data;
  std::size_t stride;  // between rows in memory
  bool along;          // each row in memory is a line; else it is one k of all lines

  const float* at(std::size_t line, std::size_t k) const {
    return along ? data + line * stride + k : data + k * stride + line;
  }
};

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

}  // namespace paddle::kernels::avx512
