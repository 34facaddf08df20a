// Products of a device beside sums in double precision.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "tests/gpu/card_memory.h"

namespace paddle::device {
namespace {

using test::card;
using Values = std::vector<float>;

constexpr float kOutside = -77;

std::uint16_t bfloat16_of(float x) {
  auto bits = std::bit_cast<std::uint32_t>(x);
  bits += 0x7fffU + ((bits >> 16U) & 1U);
  return static_cast<std::uint16_t>(bits >> 16U);
}
float float_of(std::uint16_t x) {
  return std::bit_cast<float>(std::uint32_t{x} << 16U);
}

struct Matrix {
  std::size_t rows;
  std::size_t width;
  std::size_t stride;
  Values values;

  Matrix(std::size_t of_rows, std::size_t of_width, std::size_t of_stride, std::uint64_t seed)
      : rows(of_rows), width(of_width), stride(of_stride), values(of_rows * of_stride, kOutside) {
    Rng rng(seed);
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < width; ++c) {
        values[r * stride + c] = static_cast<float>(rng.uniform() - 0.5);
      }
    }
  }
  double at(bool transposed, std::size_t r, std::size_t c) const {
    return values[transposed ? c * stride + r : r * stride + c];
  }
};

struct Case {
  std::size_t m, n, k;
  std::size_t gap;  // between rows, beyond their width
  unsigned form;    // bits: transpose a, transpose b, accumulate, bias, relu
  Precision precision;
};

void expect_product(const Case& one) {
  const bool is_bf16 = one.precision == Precision::kBfloat16;
  const auto bit = [&](unsigned number) { return (one.form >> number & 1U) != 0; };
  // As the executor pads them.
  const auto stride_of = [&](std::size_t width) {
    return is_bf16 ? (width + 7) / 8 * 8 : width + one.gap;
  };
  const std::size_t a_width = bit(0) ? one.m : one.k;
  const std::size_t b_width = bit(1) ? one.k : one.n;
  Matrix a(bit(0) ? one.k : one.m, a_width, stride_of(a_width), 1);
  Matrix b(bit(1) ? one.n : one.k, b_width, stride_of(b_width), 2);
  const Matrix c(one.m, one.n, one.n + one.gap, 3);
  const Matrix bias(1, one.n, one.n, 4);
  const Stream stream = expect(Stream::open(card()));
  std::vector<std::uint16_t> halves[2];
  for (const int i : {0, 1}) {
    for (float& x : (i == 0 ? a : b).values) {
      halves[i].push_back(bfloat16_of(x));
      if (is_bf16) x = float_of(halves[i].back());
    }
  }
  const auto float_a = on_card(card(), stream, a.values),
             float_b = on_card(card(), stream, b.values);
  const auto half_a = on_card(card(), stream, halves[0]),
             half_b = on_card(card(), stream, halves[1]);
  const auto card_c = on_card(card(), stream, c.values);
  const auto card_bias = on_card(card(), stream, bias.values);
  const Product product{.transpose_a = bit(0),
                        .transpose_b = bit(1),
                        .m = one.m,
                        .n = one.n,
                        .k = one.k,
                        .precision = one.precision,
                        .a = is_bf16 ? static_cast<const void*>(half_a.data()) : float_a.data(),
                        .a_stride = a.stride,
                        .b = is_bf16 ? static_cast<const void*>(half_b.data()) : float_b.data(),
                        .b_stride = b.stride,
                        .c = card_c.data(),
                        .c_stride = c.stride,
                        .accumulate = bit(2),
                        .bias = bit(3) ? card_bias.data() : nullptr,
                        .relu = bit(4)};
  card().multiply(stream.handle(), product);
  const Values got = read(card(), stream, card_c);
  const double tolerance = (one.precision == Precision::kTensorFloat32 ? 3e-4 : 1e-6) *
                           std::sqrt(static_cast<double>(one.k) + 1);
  for (std::size_t i = 0; i < one.m; ++i) {
    for (std::size_t j = 0; j < c.stride; ++j) {
      double want = c.values[i * c.stride + j];
      if (j < one.n) {
        if (!product.accumulate) want = 0;
        for (std::size_t l = 0; l < one.k; ++l) want += a.at(bit(0), i, l) * b.at(bit(1), l, j);
        if (product.bias != nullptr) want += bias.values[j];
        if (product.relu) want = std::max(want, 0.0);
      }
      ASSERT_NEAR(got[i * c.stride + j], want, j < one.n ? tolerance : 0)
          << one.m << " x " << one.k << " x " << one.n << ", form " << one.form << ", at " << i
          << ", " << j;
    }
  }
}

constexpr Precision kAll[] = {Precision::kFloat32, Precision::kTensorFloat32, Precision::kBfloat16};

TEST(ContractOfProducts, OfEachFormIsTheProduct) {
  for (const Precision precision : kAll) {
    for (unsigned form = 0; form < 32; ++form) expect_product({24, 40, 56, 8, form, precision});
  }
}

// 273 columns, and few.
TEST(ContractOfProducts, Trap39OfUnalignedWidthsIsTheProduct) {
  for (const Precision precision : kAll) {
    for (const auto& [m, n, k] : {std::array<std::size_t, 3>{17, 273, 31},
                                  {33, 10, 273},
                                  {7, 1, 129},
                                  {1, 400, 273},
                                  {3, 2073, 256},
                                  {257, 3, 1}}) {
      for (const unsigned form : {0U, 1U, 2U, 4U, 8U, 24U, 25U}) {
        expect_product({m, n, k, 0, form, precision});
        expect_product({m, n, k, 3, form, precision});
      }
    }
  }
}

TEST(ContractOfProducts, OfNothingIsZero) {
  const Stream stream = expect(Stream::open(card()));
  const auto c = on_card<float>(card(), stream, {5, kOutside, 5, kOutside});
  const auto bias = on_card<float>(card(), stream, {-2});
  Product product{.m = 2, .n = 1};
  product.c = c.data();
  product.c_stride = 2;
  product.accumulate = true;
  card().multiply(stream.handle(), product);
  EXPECT_EQ(read(card(), stream, c), (Values{5, kOutside, 5, kOutside}));
  product.accumulate = false;
  product.bias = bias.data();
  card().multiply(stream.handle(), product);
  EXPECT_EQ(read(card(), stream, c), (Values{-2, kOutside, -2, kOutside}));
}

// Large enough for tensor cores, which small products may not use.
TEST(ContractOfProducts, Trap42Float32KeepsWhatTensorFloat32Loses) {
  constexpr float x = 1 + 0x1p-12F;
  constexpr std::size_t kSize = 512;
  constexpr std::size_t kTerms = 64;
  const Stream stream = expect(Stream::open(card()));
  const auto a = on_card<float>(card(), stream, Values(kSize * kTerms, x));
  const auto b = on_card<float>(card(), stream, Values(kTerms * kSize, 1.0F / kTerms));
  const auto c = on_card<float>(card(), stream, Values(kSize * kSize, 0));
  for (const Precision precision : {Precision::kFloat32, Precision::kTensorFloat32}) {
    card().multiply(stream.handle(), {.m = kSize,
                                      .n = kSize,
                                      .k = kTerms,
                                      .precision = precision,
                                      .a = a.data(),
                                      .a_stride = kTerms,
                                      .b = b.data(),
                                      .b_stride = kSize,
                                      .c = c.data(),
                                      .c_stride = kSize});
    const float got = read(card(), stream, c)[0];
    if (precision == Precision::kFloat32) {
      EXPECT_NEAR(got, x, 1e-6);
    } else {
      EXPECT_EQ(got, 1);
    }
  }
}

TEST(ContractOfProducts, ABiasMayBeginAtAnyFloat) {
  constexpr std::size_t kSize = 24;
  const Stream stream = expect(Stream::open(card()));
  const auto ones = on_card(card(), stream, Values(kSize * kSize, 1));
  const auto bias = on_card(card(), stream, Values(kSize + 1, -2));
  const auto c = on_card(card(), stream, Values(kSize * kSize, 0));
  card().multiply(stream.handle(), {.m = kSize,
                                    .n = kSize,
                                    .k = kSize,
                                    .a = ones.data(),
                                    .a_stride = kSize,
                                    .b = ones.data(),
                                    .b_stride = kSize,
                                    .c = c.data(),
                                    .c_stride = kSize,
                                    .bias = bias.data() + 1,
                                    .relu = true});
  EXPECT_EQ(read(card(), stream, c), Values(kSize * kSize, kSize - 2));
}

TEST(ContractOfProducts, TwoRunsGiveTheSameBits) {
  const Stream stream = expect(Stream::open(card()));
  const Matrix a(4096, 273, 273, 1), b(4096, 400, 400, 2);
  const auto card_a = on_card(card(), stream, a.values), card_b = on_card(card(), stream, b.values);
  const auto c = memory_of<float, Place::kCard>(card(), 273 * 400);
  Values first;
  for (int i = 0; i < 10; ++i) {
    card().multiply(stream.handle(), {.transpose_a = true,
                                      .m = 273,
                                      .n = 400,
                                      .k = 4096,
                                      .a = card_a.data(),
                                      .a_stride = 273,
                                      .b = card_b.data(),
                                      .b_stride = 400,
                                      .c = c.data(),
                                      .c_stride = 400});
    const Values got = read(card(), stream, c);
    if (i == 0) first = got;
    ASSERT_EQ(got, first);
  }
}

}  // namespace
}  // namespace paddle::device
