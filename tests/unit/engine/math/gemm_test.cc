#include "engine/math/gemm.h"

#include <cblas.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/math/activation.h"
#include "engine/math/avx512_gemm.h"
#include "tests/unit/engine/math/reference.h"

namespace paddle::kernels {
namespace {

TEST(Gemm, MatchesReferenceForEveryTransposeAndShape) {
  const std::size_t shapes[][3] = {{1, 1, 1},
                                   {3, 5, 7},
                                   {32, 33, 1},
                                   {17, 129, 64},
                                   {4, 3, 0},
                                   // whole tiles, and more than one block each way
                                   {14, 32, 16},
                                   {600, 33, 20},
                                   {15, 2081, 9},
                                   {29, 40, 600},
                                   {600, 70, 1101}};
  for (const auto& [m, n, k] : shapes) {
    for (const Transpose ta : {Transpose::kNo, Transpose::kYes}) {
      for (const Transpose tb : {Transpose::kNo, Transpose::kYes}) {
        for (const bool accumulate : {false, true}) {
          const auto a = reference::random_floats(m * k + 1, 1);
          const auto b = reference::random_floats(k * n + 1, 2);
          auto c = reference::random_floats(m * n, 3);
          const std::vector<double> da(a.begin(), a.end());
          const std::vector<double> db(b.begin(), b.end());
          std::vector<double> dc(c.begin(), c.end());
          gemm(Compute::kFloat32, ta, tb, m, n, k, a.data(), b.data(), accumulate, c.data());
          reference::gemm(ta, tb, m, n, k, da.data(), db.data(), accumulate, dc.data());
          for (std::size_t i = 0; i < c.size(); ++i) ASSERT_NEAR(c[i], dc[i], 1e-4) << m << n << k;
        }
      }
    }
  }
}

// So the blocks of the kernel for AVX-512, whose size follows this CPU's caches, change no bit: a
// job may go on on another CPU.
TEST(Gemm, NoRowDependsOnHowManyOthersThereAre) {
  if (!has_independent_rows()) GTEST_SKIP() << "OpenBLAS computes the products of this CPU";
  constexpr std::size_t kM = 600, kN = 70, kK = 1101, kPart = 100;
  constexpr Transpose kNo = Transpose::kNo;
  const auto a = reference::random_floats(kM * kK, 1);
  const auto b = reference::random_floats(kK * kN, 2);
  std::vector<float> whole(kM * kN), parts(kM * kN);
  gemm(Compute::kFloat32, kNo, kNo, kM, kN, kK, a.data(), b.data(), false, whole.data());
  for (std::size_t row = 0; row < kM; row += kPart) {
    gemm(Compute::kFloat32, kNo, kNo, kPart, kN, kK, a.data() + row * kK, b.data(), false,
         parts.data() + row * kN);
  }
  EXPECT_EQ(whole, parts);
}

TEST(Gemm, LeavesWhatIsBetweenTheRowsOfCAlone) {
  const std::size_t stride = 61;
  const std::size_t shapes[][3] = {{3, 5, 7}, {4, 3, 0}, {17, 50, 900}, {600, 60, 20}};
  for (const auto& [m, n, k] : shapes) {
    for (const bool accumulate : {false, true}) {
      const auto a = reference::random_floats(m * k, 1);
      const auto b = reference::random_floats(k * n, 2);
      auto c = reference::random_floats(m * stride, 3);
      auto expected = c;
      std::vector<float> packed(m * n);
      for (std::size_t i = 0; i < packed.size(); ++i) packed[i] = c[i / n * stride + i % n];
      gemm(Compute::kFloat32, Transpose::kNo, Transpose::kYes, m, n, k, a.data(), b.data(),
           accumulate, packed.data());
      for (std::size_t i = 0; i < packed.size(); ++i) expected[i / n * stride + i % n] = packed[i];
      gemm(Compute::kFloat32, Transpose::kNo, Transpose::kYes, m, n, k, a.data(), b.data(),
           accumulate, c.data(), {}, stride);
      ASSERT_EQ(c, expected) << m << n << k;
    }
  }
}

TEST(Gemm, RoundsOnlyTheFactorsToBfloat16) {
  if (!has_kernel(Kernel::kBfloat16Vectors)) GTEST_SKIP() << "the CPU has no AVX512-BF16";
  use_kernel(Compute::kBfloat16, Kernel::kBfloat16Vectors);
  const std::size_t shapes[][3] = {{3, 16, 1},    {17, 33, 31},   {600, 50, 64},
                                   {15, 2081, 9}, {29, 40, 1201}, {600, 70, 1101}};
  for (const auto& [m, n, k] : shapes) {
    for (const Transpose ta : {Transpose::kNo, Transpose::kYes}) {
      for (const Transpose tb : {Transpose::kNo, Transpose::kYes}) {
        const auto a = reference::random_floats(m * k, 1);
        const auto b = reference::random_floats(k * n, 2);
        std::vector<double> da, db;
        for (const float value : a) da.push_back(reference::round_to_bfloat16(value));
        for (const float value : b) db.push_back(reference::round_to_bfloat16(value));
        auto c = reference::random_floats(m * n, 3);
        std::vector<double> dc(c.begin(), c.end());
        gemm(Compute::kBfloat16, ta, tb, m, n, k, a.data(), b.data(), true, c.data());
        reference::gemm(ta, tb, m, n, k, da.data(), db.data(), true, dc.data());
        for (std::size_t i = 0; i < c.size(); ++i) ASSERT_NEAR(c[i], dc[i], 1e-4) << m << n << k;
      }
    }
  }
}

// A kernel that the CPU lacks is never selected, and the selected one computes the product.
TEST(Gemm, UsesTheSelectedKernelOfThisCpu) {
  for (const Compute compute : {Compute::kBfloat16, Compute::kBfloat16x3}) {
    EXPECT_TRUE(has_kernel(kernel_for(compute))) << name_of(kernel_for(compute));
  }
  constexpr std::size_t kSize = 40;
  const auto a = reference::random_floats(kSize * kSize, 1);
  const auto b = reference::random_floats(kSize * kSize, 2);
  const auto product = [&](Compute compute) {
    std::vector<float> c(kSize * kSize);
    gemm(compute, Transpose::kNo, Transpose::kNo, kSize, kSize, kSize, a.data(), b.data(), false,
         c.data());
    return c;
  };
  const auto exact = product(Compute::kFloat32);
  use_kernel(Compute::kBfloat16, Kernel::kFloat32);
  EXPECT_EQ(product(Compute::kBfloat16), exact);
  for (const auto& [compute, kernel] : {std::pair{Compute::kBfloat16, Kernel::kBfloat16Vectors},
                                        {Compute::kBfloat16, Kernel::kBfloat16Tiles},
                                        {Compute::kBfloat16x3, Kernel::kBfloat16x3Tiles}}) {
    if (!has_kernel(kernel)) continue;
    use_kernel(compute, kernel);
    EXPECT_NE(product(compute), exact) << name_of(kernel);
  }
}

TEST(Gemm, EndsWithItsEpilogue) {
  const std::size_t shapes[][3] = {{3, 5, 7}, {17, 33, 0}, {17, 50, 900}, {600, 2081, 20}};
  for (const auto& [m, n, k] : shapes) {
    const auto a = reference::random_floats(m * k, 1);
    const auto b = reference::random_floats(k * n, 2);
    const auto bias = reference::random_floats(n, 3);
    for (const bool has_bias : {false, true}) {
      for (const bool relu : {false, true}) {
        auto expected = reference::random_floats(m * n, 4);
        auto c = expected;
        gemm(Compute::kFloat32, Transpose::kNo, Transpose::kNo, m, n, k, a.data(), b.data(), true,
             expected.data());
        const float* const added = has_bias ? bias.data() : nullptr;
        bias_activate(*find_activation(relu ? "relu" : "identity"), m, n, added, expected.data());
        gemm(Compute::kFloat32, Transpose::kNo, Transpose::kNo, m, n, k, a.data(), b.data(), true,
             c.data(), {added, relu});
        ASSERT_EQ(c, expected) << m << n << k;
      }
    }
  }
}

// A row's bits do not depend on the number of rows, so a batch may be split among threads, and have
// the records of several requests.
TEST(Gemm, GivesARowTheSameBitsAmongFewAndMany) {
  // Columns that fill vectors, and some that do not; values of k that make one sum, and several.
  const std::size_t shapes[][2] = {{37, 270}, {64, 512}, {400, 400}, {130, 1100}, {12, 65},
                                   {1, 3},    {1, 400},  {2, 129},   {5, 1100},   {11, 64}};
  EXPECT_EQ(has_independent_rows(), has_avx512_gemm(Compute::kFloat32));
  for (const Compute compute : {Compute::kFloat32, Compute::kBfloat16}) {
    if (!has_avx512_gemm(compute)) continue;
    if (compute == Compute::kBfloat16) use_kernel(compute, Kernel::kBfloat16Vectors);
    for (const auto& [n, k] : shapes) {
      constexpr std::size_t kMany = 41;
      const auto a = reference::random_floats(kMany * k, 1);
      const auto b = reference::random_floats(k * n, 2);
      const auto bias = reference::random_floats(n, 3);
      for (const bool accumulate : {false, true}) {
        const auto begin = reference::random_floats(kMany * n, 4);
        auto all = begin;
        gemm(compute, Transpose::kNo, Transpose::kNo, kMany, n, k, a.data(), b.data(), accumulate,
             all.data(), {bias.data(), true});
        for (std::size_t few = 1; few <= 32; ++few) {
          const std::size_t skipped = kMany - few;
          std::vector<float> last(begin.end() - static_cast<std::ptrdiff_t>(few * n), begin.end());
          gemm(compute, Transpose::kNo, Transpose::kNo, few, n, k, a.data() + skipped * k, b.data(),
               accumulate, last.data(), {bias.data(), true});
          ASSERT_TRUE(std::equal(last.begin(), last.end(),
                                 all.end() - static_cast<std::ptrdiff_t>(few * n)))
              << few << " rows, " << n << " columns, " << k;
        }
      }
    }
  }
}

TEST(Gemm, DoesNotReadTheResultWhenBetaIsZero) {
  std::vector<float> c(4, std::numeric_limits<float>::quiet_NaN());
  const std::vector<float> a{1, 2, 3, 4};
  gemm(Compute::kFloat32, Transpose::kNo, Transpose::kNo, 2, 2, 2, a.data(), a.data(), false,
       c.data());
  EXPECT_EQ(c, (std::vector<float>{7, 10, 15, 22}));
}

// Our own kernels and OpenBLAS (few columns, and every shape without AVX-512) are called. Some
// builds of OpenBLAS give two threads one buffer, and then one in thousands of products is wrong.
TEST(Gemm, GivesTheSameBitsOnManyThreads) {
  const std::size_t shapes[][3] = {{64, 200, 128}, {64, 11, 80}, {64, 2, 300}, {1, 3, 500}};
  for (const auto& [m, n, k] : shapes) {
    for (const Transpose ta : {Transpose::kNo, Transpose::kYes}) {
      const auto a = reference::random_floats(m * k, 1);
      const auto b = reference::random_floats(k * n, 2);
      const auto multiply = [&, m = m, n = n, k = k](std::vector<float>& c) {
        gemm(Compute::kFloat32, ta, Transpose::kNo, m, n, k, a.data(), b.data(), false, c.data());
      };
      std::vector<float> expected(m * n);
      multiply(expected);
      EXPECT_EQ(reference::differ_on_threads(expected, 3000, multiply), 0)
          << m << ' ' << n << ' ' << k;
    }
  }
}

// A trainer has the threads it was told to have, and no more.
TEST(Gemm, RunsOnTheCallingThreadAlone) {
  const auto a = reference::random_floats(700 * 700, 1);
  std::vector<float> c(700 * 11);
  gemm(Compute::kFloat32, Transpose::kNo, Transpose::kNo, 700, 11, 700, a.data(), a.data(), false,
       c.data());
  EXPECT_EQ(openblas_get_num_threads(), 1);
}

}  // namespace
}  // namespace paddle::kernels
