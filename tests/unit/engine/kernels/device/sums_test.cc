#include "engine/kernels/elementwise.h"
#include "tests/unit/engine/kernels/device/run_kernel.h"

namespace paddle::kernels::device {
namespace {

// Sums of columns in double precision, and of the terms without their signs.
struct ColumnSums {
  std::vector<double> sums;
  std::vector<double> magnitudes;

  template <class Term>
  ColumnSums(std::size_t rows, std::size_t width, Term term) : sums(width), magnitudes(width) {
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

template <class K>
std::vector<float> column_sums(K kernel, std::size_t rows, std::size_t width) {
  std::vector<float> chunks = nans(chunk_count(rows) * width);
  kernel.chunks = chunks.data();
  EXPECT_EQ(kernel.count(), chunks.size());
  run(kernel);
  std::vector<float> sums = nans(width);
  run(SumChunks{chunk_count(rows), width, chunks.data(), sums.data(), false});
  std::vector<float> twice = sums;
  run(SumChunks{chunk_count(rows), width, chunks.data(), twice.data(), true});
  for (std::size_t c = 0; c < width; ++c) {
    EXPECT_NEAR(twice[c], 2 * sums[c], 1e-6F * std::fabs(sums[c]));
  }
  return sums;
}

TEST(DeviceSums, SumsOfColumnsAreNearAndOfOneChunkHaveTheBitsOfTheCpu) {
  for_each_size([](std::size_t rows, std::size_t width) {
    const std::vector<float> values = normals(1, rows * width);
    const Block from(rows, width, values);
    const std::vector<float> sums =
        column_sums(ChunkSums{rows, width, from.from(), nullptr}, rows, width);
    ColumnSums(rows, width, [&](std::size_t r, std::size_t c) {
      return values[r * width + c];
    }).expect_near(sums);
    if (rows > kChunkRows) return;
    std::vector<float> expected(width);
    column_sum(rows, width, values.data(), 0, expected.data());
    expect_bits(sums, expected, "sums");
  });
}

TEST(DeviceSums, SumsOfTheGainOfALayerNormAreNear) {
  for_each_size([](std::size_t rows, std::size_t width) {
    const std::vector<float> x = normals(1, rows * width);
    const std::vector<float> statistics = normals(2, 2 * rows);
    const std::vector<float> gradient = normals(3, rows * width);
    const std::vector<float> sums = column_sums(
        GainChunkSums{rows, width, x.data(), statistics.data(), gradient.data(), nullptr}, rows,
        width);
    ColumnSums(rows, width, [&](std::size_t r, std::size_t c) {
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
          const ColumnSums exact(
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

}  // namespace
}  // namespace paddle::kernels::device
