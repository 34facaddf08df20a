#include "engine/kernels/cross_entropy.h"
#include "engine/kernels/squared_error.h"
#include "tests/unit/engine/kernels/device/run_kernel.h"

namespace paddle::kernels::device {
namespace {

TEST(DeviceCosts, SoftmaxHasTheBitsOfTheCpu) {
  for_each_size([](std::size_t rows, std::size_t width) {
    std::vector<float> y = normals(1, rows * width);
    std::vector<float> expected = y;
    softmax_rows(rows, width, expected.data());
    run(SoftmaxRows{rows, width, y.data()});
    expect_bits(y, expected, "softmax");
    std::vector<float> gradient = normals(2, rows * width);
    std::vector<float> expected_gradient = gradient;
    softmax_rows_backward(rows, width, y.data(), expected_gradient.data());
    run(SoftmaxRowsBackward{rows, width, y.data(), gradient.data()});
    expect_bits(gradient, expected_gradient, "gradient");
  });
}

void compare_softmax_cost(std::size_t rows, std::size_t width, const std::vector<float>& logits) {
  constexpr float kScale = 0.37F;
  std::vector<std::uint32_t> classes(rows);
  for (std::size_t r = 0; r < rows; ++r) {
    classes[r] = static_cast<std::uint32_t>(mix64(r) % width);
  }
  const Block x(rows, width, logits);
  Block gradient = Block::poisoned(rows, width);
  std::vector<double> costs(rows, std::nan(""));
  std::vector<std::uint32_t> predictions(rows, 0xffff);
  SoftmaxCrossEntropy kernel{rows,     width,         classes.data(), kScale,
                             x.from(), gradient.to(), costs.data(),   predictions.data()};
  run(kernel);
  std::vector<float> expected(rows * width);
  for (std::size_t r = 0; r < rows; ++r) {
    const SoftmaxCost of = softmax_cross_entropy(width, logits.data() + r * width, classes[r],
                                                 kScale, expected.data() + r * width);
    if (std::isnan(of.cost)) {
      EXPECT_TRUE(std::isnan(costs[r])) << r;
    } else {
      ASSERT_EQ(costs[r], of.cost) << r;
    }
    ASSERT_EQ(predictions[r], of.prediction) << r;
  }
  expect_bits(gradient.packed(), expected, "gradient");
  // In a test.
  kernel.gradient = {};
  costs.assign(rows, std::nan(""));
  const std::vector<std::uint32_t> before = predictions;
  predictions.assign(rows, 0xffff);
  run(kernel);
  EXPECT_EQ(predictions, before);
  for (const double cost : costs) EXPECT_EQ(std::isnan(cost), std::isnan(costs[0]));
}

TEST(DeviceCosts, Trap40SoftmaxCostHasTheBitsOfTheCpu) {
  for_each_size([](std::size_t rows, std::size_t width) {
    compare_softmax_cost(rows, width, normals(3, rows * width));
  });
  for (const std::size_t width : {2UL, 4UL, 5UL, 32UL, 33UL}) {
    compare_softmax_cost(9, width, normals(4, 9 * width));
  }
}

TEST(DeviceCosts, EqualAndHugeLogitsAndNanAreTreatedAsOnTheCpu) {
  compare_softmax_cost(3, 40, std::vector<float>(120, 1.5F));
  compare_softmax_cost(1, 3, {3e38F, -3e38F, 1e30F});
  std::vector<float> logits = normals(5, 40);
  for (const std::size_t at : {0UL, 1UL, 39UL}) {
    std::vector<float> with_nan = logits;
    with_nan[at] = std::nanf("");
    compare_softmax_cost(1, 40, with_nan);
  }
}

template <class K, class Kernel>
void compare_cost(Kernel cpu) {
  for_each_size([&](std::size_t rows, std::size_t width) {
    constexpr float kScale = 0.37F;
    const std::vector<float> values = normals(6, rows * width);
    std::vector<float> expected = normals(7, rows * width);
    const Block x(rows, width, values);
    const Block labels(rows, width, expected);
    Block gradient = Block::poisoned(rows, width);
    std::vector<double> costs(rows, std::nan(""));
    K kernel{rows, width, kScale, x.from(), labels.from(), gradient.to(), costs.data()};
    run(kernel);
    for (std::size_t r = 0; r < rows; ++r) {
      const double cost =
          cpu(width, values.data() + r * width, kScale, expected.data() + r * width);
      // In lanes the sum has another order.
      ASSERT_NEAR(costs[r], cost, 1e-12 * (1 + std::fabs(cost)) * static_cast<double>(width));
    }
    expect_bits(gradient.packed(), expected, "gradient");
    std::vector<double> in_a_test(rows, std::nan(""));
    kernel.gradient = {};
    kernel.costs = in_a_test.data();
    run(kernel);
    EXPECT_EQ(in_a_test, costs);
  });
}

TEST(DeviceCosts, BinaryCrossEntropyHasTheGradientBitsOfTheCpu) {
  compare_cost<BinaryCrossEntropy>(binary_cross_entropy);
}

TEST(DeviceCosts, SquaredErrorHasTheGradientBitsOfTheCpu) {
  compare_cost<SquaredError>(squared_error);
}

TEST(DeviceCosts, Trap43TheSumOfAMillionCostsIsTheCpus) {
  Rng rng(8);
  std::vector<double> costs(1'000'003);
  double expected = 0;
  float single = 0;
  for (double& cost : costs) {
    cost = static_cast<double>(static_cast<float>(0.6931 + 0.1 * rng.uniform()));
    expected += cost;
    single += static_cast<float>(cost);
  }
  std::vector<double> sum(1, std::nan(""));
  run(SumCosts{costs.size(), costs.data(), sum.data(), 0});
  EXPECT_NEAR(sum[0], expected, 1e-6 * expected);
  EXPECT_GT(std::fabs(static_cast<double>(single) - expected), 1e-6 * expected);
  std::vector<double> sums(cost_chunk_count(costs.size()), std::nan(""));
  const SumCosts chunks{costs.size(), costs.data(), sums.data(), kCostChunk};
  ASSERT_EQ(chunks.count(), sums.size());
  run(chunks);
  run(SumCosts{sums.size(), sums.data(), sum.data(), 0});
  EXPECT_NEAR(sum[0], expected, 1e-6 * expected);
  run(SumCosts{0, costs.data(), sum.data(), 0});
  EXPECT_EQ(sum[0], 0);
}

}  // namespace
}  // namespace paddle::kernels::device
