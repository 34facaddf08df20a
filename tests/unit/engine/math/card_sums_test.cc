#include <bit>

#include "engine/math/activation.h"
#include "engine/math/elementwise.h"
#include "tests/unit/engine/math/run_kernel.h"

namespace paddle::kernels::device {
namespace {

// Sums of columns in double precision, and of the terms without their signs.
struct ColumnSumsInDouble {
  std::vector<double> sums;
  std::vector<double> magnitudes;

  template <class Term>
  ColumnSumsInDouble(std::size_t rows, std::size_t width, Term term)
      : sums(width), magnitudes(width) {
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < width; ++c) {
        const auto value = static_cast<double>(term(r, c));
        sums[c] += value;
        magnitudes[c] += std::fabs(value);
      }
    }
  }
  void expect_near(const std::vector<float>& values) const {
    for (std::size_t c = 0; c < sums.size(); ++c) {
      ASSERT_NEAR(values[c], sums[c], 1e-6 * magnitudes[c]) << c;
    }
  }
};

TEST(DeviceSums, ChunksOfABatchFitTheRoomOfTheNextPowerOfTwo) {
  EXPECT_EQ(chunk_count(0), 1U);
  EXPECT_EQ(chunk_count(33), 2U);
  for (std::size_t rows = 1; rows < 300000; rows += 1 + rows / 50) {
    ASSERT_LE(chunk_count(rows), chunk_count(std::bit_ceil(rows))) << rows;
    ASSERT_GE(chunk_count(rows) * chunk_rows(rows), rows);
  }
}

template <class Terms>
std::vector<float> column_sums(const Terms& terms, std::size_t rows, std::size_t width) {
  std::vector<float> chunks = nans(chunk_count(rows) * width);
  std::vector<std::uint32_t> counters(column_blocks(width));
  std::vector<float> sums = nans(width);
  ColumnSums<Terms> kernel{rows, width, terms, chunks.data(), counters.data(), sums.data()};
  run(kernel);
  EXPECT_EQ(counters, std::vector<std::uint32_t>(counters.size())) << "for the next kernel";
  std::vector<float> twice = sums;
  kernel.to = twice.data();
  kernel.accumulate = true;
  run(kernel);
  for (std::size_t c = 0; c < width; ++c) {
    EXPECT_NEAR(twice[c], 2 * sums[c], 1e-7F * static_cast<float>(rows));
  }
  return sums;
}

TEST(DeviceSums, SumsOfColumnsAreNearAndOfOneChunkHaveTheBitsOfTheCpu) {
  for_each_size([](std::size_t rows, std::size_t width) {
    const std::vector<float> values = normals(1, rows * width);
    Block from(rows, width, values);
    const std::vector<float> sums = column_sums(SlopeTerms{from.to()}, rows, width);
    expect_bits(from.packed(), values, "what was summed up");
    ColumnSumsInDouble(rows, width, [&](std::size_t r, std::size_t c) {
      return values[r * width + c];
    }).expect_near(sums);
    if (rows > kChunkRowsMin) return;
    std::vector<float> expected(width);
    column_sum(rows, width, values.data(), 0, expected.data());
    expect_bits(sums, expected, "sums");
  });
}

TEST(DeviceSums, SlopesOfAFunctionHaveTheBitsOfTheCpuAndTheirSumsAreNear) {
  const std::pair<const char*, Function> functions[] = {{"sigmoid", Function::kSigmoid},
                                                        {"relu", Function::kRelu},
                                                        {"tanh", Function::kTanh},
                                                        {"gelu", Function::kGelu}};
  for (const auto& [name, function] : functions) {
    const Activation& activation = *find_activation(name);
    for_each_size([&](std::size_t rows, std::size_t width) {
      const std::vector<float> inputs = normals(1, rows * width);
      const Block kept(rows, width, inputs);
      std::vector<float> expected = normals(2, rows * width);
      Block gradient(rows, width, expected);
      const SlopeTerms terms{gradient.to(), function, kept.from()};
      std::vector<float> chunks = nans(chunk_count(rows) * width);
      std::vector<std::uint32_t> counters(column_blocks(width));
      std::vector<float> sums = nans(width);
      run(SlopeSums{rows, width, terms, chunks.data(), counters.data(), sums.data()});
      std::vector<float> expected_sums = nans(width);
      activation_backward(activation, rows, width, inputs.data(), expected.data(), 0,
                          expected_sums.data());
      expect_bits(gradient.packed(), expected, name);
      if (rows <= kChunkRowsMin) return expect_bits(sums, expected_sums, name);
      ColumnSumsInDouble(rows, width, [&](std::size_t r, std::size_t c) {
        return expected[r * width + c];
      }).expect_near(sums);
    });
  }
}

TEST(DeviceSums, SumsOfTheGainOfALayerNormAreNear) {
  for_each_size([](std::size_t rows, std::size_t width) {
    const std::vector<float> x = normals(1, rows * width);
    const std::vector<float> statistics = normals(2, 2 * rows);
    const std::vector<float> gradient = normals(3, rows * width);
    const std::vector<float> sums =
        column_sums(GainTerms{width, x.data(), statistics.data(), gradient.data()}, rows, width);
    ColumnSumsInDouble(rows, width, [&](std::size_t r, std::size_t c) {
      const std::size_t i = r * width + c;
      return gradient[i] * ((x[i] - statistics[2 * r]) * statistics[2 * r + 1]);
    }).expect_near(sums);
  });
}

TEST(DeviceSums, ThinProductsAreNear) {
  for_each_size([](std::size_t m, std::size_t k) {
    for (std::size_t n = 1; n <= kThinColumns; ++n) {
      const std::vector<float> a = normals(1, m * k);
      const std::vector<float> b = normals(2, k * n);
      Block c = Block::poisoned(m, n);
      for (const bool accumulate : {false, true}) {
        run(ThinProduct{m, n, k, a.data(), b.data(), c.to(), accumulate});
        const std::vector<float> values = c.packed();
        const double times = accumulate ? 2 : 1;
        for (std::size_t i = 0; i < m; ++i) {
          const ColumnSumsInDouble exact(
              k, n, [&](std::size_t at, std::size_t j) { return a[i * k + at] * b[at * n + j]; });
          for (std::size_t j = 0; j < n; ++j) {
            ASSERT_NEAR(values[i * n + j], times * exact.sums[j],
                        times * 1e-6 * exact.magnitudes[j]);
          }
        }
      }
    }
  });
}

TEST(DeviceSums, ThinProductsAddABiasAndApplyRelu) {
  for_each_size([](std::size_t m, std::size_t k) {
    constexpr std::size_t kWidth = 3;
    const std::vector<float> a = normals(1, m * k);
    const std::vector<float> b = normals(2, k * kWidth);
    const std::vector<float> bias = normals(3, kWidth);
    Block sums = Block::poisoned(m, kWidth);
    ThinProduct product{m, kWidth, k, a.data(), b.data(), sums.to()};
    run(product);
    std::vector<float> expected = sums.packed();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expected[i] = Relu::apply(expected[i] + bias[i % kWidth]);
    }
    product.bias = bias.data();
    product.relu = true;
    run(product);
    expect_bits(sums.packed(), expected, "values");
  });
}

}  // namespace
}  // namespace paddle::kernels::device
