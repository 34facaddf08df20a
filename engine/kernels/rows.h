// Moving rows of a table: gather by position, scatter-add of their gradients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace paddle::kernels {

// A position that is no row: gathers as zeros, scatters nowhere.
constexpr std::uint32_t kNoRow = 0xffffffffU;

// out[i * stride ...] = table[positions[i]], rows of `width` values.
void gather_rows(const float* table, std::size_t width, std::span<const std::uint32_t> positions,
                 float* out, std::size_t stride);
// table[positions[i]] += rows[i * stride ...] * scale * weights[i], in the order of i; null weights
// are all 1.
void scatter_add_rows(const float* rows, std::size_t stride, std::size_t width,
                      std::span<const std::uint32_t> positions, float scale, const float* weights,
                      float* table);
// out[0 .. width) = scale * sum of table[positions[i]] * weights[i], in the order of i; zeros for
// no positions; null weights are all 1.
void pool_rows(const float* table, std::size_t width, std::span<const std::uint32_t> positions,
               float scale, const float* weights, float* out);
// Copies (or adds, when accumulate) a rows x width block between buffers of different row strides.
void copy_block(std::size_t rows, std::size_t width, const float* from, std::size_t from_stride,
                float* to, std::size_t to_stride, bool accumulate);

}  // namespace paddle::kernels
