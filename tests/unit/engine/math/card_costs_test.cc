#include "engine/math/costs.h"
#include "tests/unit/engine/math/run_kernel.h"

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

// Costs of rows, and memory to add them up.
struct Costs {
  std::vector<double> each;
  std::vector<double> chunks;
  std::vector<std::uint32_t> counters;
  std::vector<double> sum{std::nan("")};

  explicit Costs(std::vector<double> costs)
      : each(std::move(costs)),
        chunks(cost_chunk_count(each.size()), std::nan("")),
        counters(1 + chunks.size()) {}
  explicit Costs(std::size_t rows) : Costs(std::vector<double>(rows, std::nan(""))) {}
  CostSum view() { return {each.data(), chunks.data(), counters.data(), sum.data()}; }
  void expect_sum() const {
    double expected = 0;
    for (const double cost : each) expected += cost;
    if (each.empty() || std::isnan(expected)) return;
    EXPECT_NEAR(sum[0], expected, 1e-12 * (1 + std::fabs(expected)));
    EXPECT_EQ(counters, std::vector<std::uint32_t>(counters.size())) << "for the next kernel";
  }
};

void compare_softmax_cost(std::size_t rows, std::size_t width, const std::vector<float>& logits) {
  constexpr float kScale = 0.37F;
  std::vector<std::uint32_t> classes(rows);
  for (std::size_t r = 0; r < rows; ++r) {
    classes[r] = static_cast<std::uint32_t>(mix64(r) % width);
  }
  const Block x(rows, width, logits);
  Block gradient = Block::poisoned(rows, width);
  Costs costs(rows);
  std::vector<std::uint32_t> predictions(rows, 0xffff);
  SoftmaxCrossEntropy kernel{rows,     width,         classes.data(), kScale,
                             x.from(), gradient.to(), costs.view(),   predictions.data()};
  run(kernel);
  costs.expect_sum();
  std::vector<float> expected(rows * width);
  for (std::size_t r = 0; r < rows; ++r) {
    const SoftmaxCost of = softmax_cross_entropy(width, logits.data() + r * width, classes[r],
                                                 kScale, expected.data() + r * width);
    if (std::isnan(of.cost)) {
      EXPECT_TRUE(std::isnan(costs.each[r])) << r;
    } else {
      ASSERT_EQ(costs.each[r], of.cost) << r;
    }
    ASSERT_EQ(predictions[r], of.prediction) << r;
  }
  expect_bits(gradient.packed(), expected, "gradient");
  // In a test.
  kernel.gradient = {};
  costs.each.assign(rows, std::nan(""));
  const std::vector<std::uint32_t> before = predictions;
  predictions.assign(rows, 0xffff);
  run(kernel);
  EXPECT_EQ(predictions, before);
  for (const double cost : costs.each) EXPECT_EQ(std::isnan(cost), std::isnan(costs.each[0]));
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
    Costs costs(rows);
    K kernel{rows, width, kScale, x.from(), labels.from(), gradient.to(), costs.view()};
    run(kernel);
    costs.expect_sum();
    for (std::size_t r = 0; r < rows; ++r) {
      const double cost =
          cpu(width, values.data() + r * width, kScale, expected.data() + r * width);
      // In lanes the sum has another order.
      ASSERT_NEAR(costs.each[r], cost, 1e-12 * (1 + std::fabs(cost)) * static_cast<double>(width));
    }
    expect_bits(gradient.packed(), expected, "gradient");
    Costs in_a_test(rows);
    kernel.gradient = {};
    kernel.costs = in_a_test.view();
    run(kernel);
    EXPECT_EQ(in_a_test.each, costs.each);
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
  EXPECT_GT(std::fabs(static_cast<double>(single) - expected), 1e-6 * expected);
  Costs all(std::move(costs));
  run(SumCosts{all.each.size(), all.view()});
  EXPECT_NEAR(all.sum[0], expected, 1e-6 * expected);
  all.expect_sum();
}

// More rows than a chunk has.
TEST(DeviceCosts, CostsOfManyRowsAreAddedUpWithTheRows) {
  const std::size_t rows = 2 * kCostChunk + 1;
  const std::vector<float> x = normals(1, rows);
  const std::vector<float> labels = normals(2, rows);
  Costs costs(rows);
  run(SquaredError{rows, 1, 1, {x.data(), 1}, {labels.data(), 1}, {}, costs.view()});
  costs.expect_sum();
}

}  // namespace
}  // namespace paddle::kernels::device
