// Kernels of a card run on the host, and blocks of memory that show what a kernel wrote.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "engine/math/card_kernel.h"
#include "tests/unit/engine/math/card_lanes.h"
#if defined(PADDLE_RUN_ON_CARD)
#include "tests/gpu/card.h"
#endif

namespace paddle::kernels::device {

// With few warps, in lanes that run by themselves. Tests keep all that a kernel reads or writes in
// vectors: for those on a card, tests/gpu has them in memory that it sees.
template <class K>
void run(const K& kernel) {
#if defined(PADDLE_RUN_ON_CARD)
  test::run_on_card(kernel);
  return;
#endif
  constexpr std::size_t kFew = kHasLanes ? 12 : 0;
  if constexpr (K::kShape == Shape::kThreads) {
    for (std::size_t i = 0; i < kernel.count(); ++i) kernel(i);
  } else if (kernel.count() > 0 && kernel.count() <= kFew) {
    run_in_lanes(kernel, kernel.count());
  } else {
    for (std::size_t i = 0; i < kernel.count(); ++i) kernel(HostWarp{}, i);
  }
}

// The sizes that kernels are tested with: one value, less than a warp, and unaligned ones.
constexpr std::size_t kWidths[] = {1, 10, 273, 2073};
constexpr std::size_t kRowCounts[] = {0, 1, 257};
constexpr std::size_t kSomeRows = 9;  // where a wide row takes long

template <class Use>
void for_each_size(Use use) {
  for (const std::size_t width : kWidths) {
    for (const std::size_t rows : kRowCounts) {
      use(width > 1000 ? std::min(rows, kSomeRows) : rows, width);
    }
  }
}

inline std::vector<float> normals(std::uint64_t seed, std::size_t count) {
  Rng rng(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

inline std::vector<float> nans(std::size_t count) {
  return std::vector<float>(count, std::numeric_limits<float>::quiet_NaN());
}

// Whether the bits are equal, or both are NaN: a card has one NaN, while a CPU keeps the bits of an
// operand.
inline bool equal_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

template <class A, class B>
void expect_bits(const A& values, const B& expected, const char* of) {
  ASSERT_EQ(values.size(), expected.size()) << of;
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_TRUE(equal_bits(values[i], expected[i]))
        << of << " " << i << ": " << values[i] << " and not " << expected[i];
  }
}

// Rows in the middle of wider ones, so that their first values are unaligned and have neighbours.
class Block {
 public:
  Block(std::size_t rows, std::size_t width, const std::vector<float>& values)
      : rows_(rows), width_(width), stride_(width + kBefore + kAfter) {
    values_.resize(rows * stride_, kOutside);
    for (std::size_t r = 0; r < rows; ++r) {
      std::copy_n(values.data() + r * width, width, values_.data() + r * stride_ + kBefore);
    }
  }
  static Block poisoned(std::size_t rows, std::size_t width) {
    return {rows, width, nans(rows * width)};
  }
  static Block random(std::uint64_t seed, std::size_t rows, std::size_t width) {
    return {rows, width, normals(seed, rows * width)};
  }

  Rows to() { return {values_.data() + kBefore, stride_}; }
  ConstRows from() const { return {values_.data() + kBefore, stride_}; }
  std::size_t stride() const { return stride_; }
  // The rows without what lies between them, which must be as it was.
  std::vector<float> packed() const {
    std::vector<float> packed;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const std::size_t column = i % stride_;
      if (column >= kBefore && column < kBefore + width_) {
        packed.push_back(values_[i]);
      } else {
        EXPECT_EQ(values_[i], kOutside) << "beside row " << i / stride_;
      }
    }
    return packed;
  }

 private:
  static constexpr std::size_t kBefore = 3;
  static constexpr std::size_t kAfter = 2;
  static constexpr float kOutside = -77;

  std::size_t rows_;
  std::size_t width_;
  std::size_t stride_;
  std::vector<float> values_;
};

}  // namespace paddle::kernels::device
