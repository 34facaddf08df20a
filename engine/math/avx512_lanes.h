// Vectors of lanes, with which matrix products on AVX-512 and on tile units pack their factors. A
// lane has 32 bits: one float, or two bfloat16 that are neighbours along k.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__)

// gcc 12's own header triggers these warnings.
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

// An attribute of functions, not a flag of a file: with a flag, the linker could keep that file's
// AVX-512 copy of another header's inline function for the whole program. Only Bfloat16's functions
// emit bfloat16 instructions.
#define PADDLE_AVX512 \
  __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,fma,prfchw")))

namespace paddle::kernels::avx512 {

constexpr std::size_t kLanes = 16;  // lanes of 32 bits in a vector

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

// Size of nearly equal parts of `total`: at most `most`, and a multiple of `unit`.
inline std::size_t part_size(std::size_t total, std::size_t most, std::size_t unit) {
  const std::size_t parts = (total + most - 1) / most;
  const std::size_t even = (total + parts - 1) / parts;
  return (even + unit - 1) / unit * unit;
}

}  // namespace paddle::kernels::avx512

#endif
