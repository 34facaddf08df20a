#include "engine/math/initial.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"

namespace paddle::optim {
namespace {

wire::ParameterSpec spec_of(const std::string& name, float mean, float deviation) {
  wire::ParameterSpec spec;
  spec.set_name(name);
  spec.set_initial_mean(mean);
  spec.set_initial_std(deviation);
  return spec;
}

TEST(InitialTest, AnyPartOfAParameterIsTheSame) {
  const wire::ParameterSpec spec = spec_of("_fc.w0", 0, 0.1F);
  std::vector<float> whole(100);
  fill_initial(whole, spec, 5, 0);
  std::vector<float> part(30);
  fill_initial(part, spec, 5, 60);
  EXPECT_EQ(part, std::vector<float>(whole.begin() + 60, whole.begin() + 90));
  fill_initial(part, spec, 6, 60);
  EXPECT_NE(part, std::vector<float>(whole.begin() + 60, whole.begin() + 90));
}

TEST(InitialTest, RowsDependOnIdNameAndSeed) {
  const wire::ParameterSpec spec = spec_of("_proj", 0, 1);
  std::vector<float> row(8);
  std::vector<float> other(8);
  fill_initial_row(row, spec, 1, 7);
  fill_initial_row(other, spec, 1, 7);
  EXPECT_EQ(row, other);
  fill_initial_row(other, spec, 1, 8);
  EXPECT_NE(row, other);
  fill_initial_row(other, spec, 2, 7);
  EXPECT_NE(row, other);
  fill_initial_row(other, spec_of("_other", 0, 1), 1, 7);
  EXPECT_NE(row, other);
}

TEST(InitialTest, HasTheMomentsAskedFor) {
  std::vector<float> values(100000);
  fill_initial(values, spec_of("w", 2, 0.5F), 1, 0);
  double sum = 0;
  double squares = 0;
  for (const float value : values) {
    sum += static_cast<double>(value);
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  const double mean = sum / static_cast<double>(values.size());
  EXPECT_NEAR(mean, 2, 0.01);
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(values.size()) - mean * mean), 0.5, 0.01);
}

// Each element is Box-Muller's normal of its own random numbers, as the C library computes it.
TEST(InitialTest, AreTheGeneratorsNormals) {
  constexpr std::size_t kWidth = 4001;
  std::vector<float> row(kWidth);
  fill_initial_row(row, spec_of("_proj", 0.5F, 2), 3, 11);
  Rng rng(hash_combine(hash_combine(3, stable_hash("_proj")), 11));
  std::size_t rounded_otherwise = 0;
  for (const float value : row) {
    const double expected = 0.5 + 2 * rng.normal();
    ASSERT_NEAR(value, expected, 3e-7 * std::max(1.0, std::fabs(expected)));
    if (value != static_cast<float>(expected)) ++rounded_otherwise;
  }
  EXPECT_LE(rounded_otherwise, 1U);
}

TEST(InitialTest, ManyRowsAtOnceAreEachAlone) {
  const wire::ParameterSpec spec = spec_of("_proj", 0.5F, 2);
  for (const std::size_t width : {1, 10, 16, 300, 1300}) {
    std::vector<float> values(width * 101);
    std::vector<InitialRows::Row> rows;
    for (std::size_t i = 0; i < 101; ++i) rows.push_back({i * i, values.data() + i * width});
    InitialRows(spec, 3, width).fill(rows);
    for (const InitialRows::Row& row : rows) {
      std::vector<float> alone(width);
      fill_initial_row(alone, spec, 3, row.id);
      ASSERT_EQ(alone, std::vector<float>(row.to, row.to + width)) << width << ' ' << row.id;
    }
  }
}

TEST(InitialTest, ZeroDeviationIsTheMean) {
  std::vector<float> values(3, 9);
  fill_initial(values, spec_of("b", 0.25F, 0), 1, 0);
  EXPECT_EQ(values, std::vector<float>(3, 0.25F));
  fill_initial_row(values, spec_of("b", 0, 0), 1, 0);
  EXPECT_EQ(values, std::vector<float>(3, 0.0F));
}

// An independent program computed these values from splitmix64, FNV-1a and Box-Muller; a change
// breaks every resumed job.
TEST(InitialTest, GoldenValues) {
  std::vector<float> values(3);
  fill_initial(values, spec_of("_proj", 0, 1), 1, 0);
  EXPECT_EQ(values, (std::vector<float>{0x1.bc251a0000000p-2F, -0x1.33bca20000000p-8F,
                                        0x1.adf2300000000p-1F}));
  fill_initial_row(values, spec_of("_proj", 0, 1), 1, 42);
  EXPECT_EQ(values, (std::vector<float>{0x1.396bee0000000p+1F, -0x1.0569740000000p+0F,
                                        -0x1.d472140000000p-4F}));
}

}  // namespace
}  // namespace paddle::optim
