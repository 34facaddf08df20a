#include <gtest/gtest.h>

#include "engine/math/activation.h"
#include "engine/math/elementwise.h"
#include "engine/math/rank_sums.h"
#include "engine/math/rows.h"
#include "tests/unit/engine/math/run_kernel.h"

namespace paddle::kernels::device {
namespace {

TEST(DeviceElementwise, FillWritesAll) {
  std::vector<float> to = nans(273);
  run(Fill{to.size(), 2.5F, to.data()});
  expect_bits(to, std::vector<float>(273, 2.5F), "fill");
}

TEST(DeviceElementwise, Trap40CopyBlockWritesItsColumnsAndNoOthers) {
  for_each_size([](std::size_t rows, std::size_t width) {
    const std::vector<float> values = normals(1, rows * width);
    const Block from(rows, width, values);
    Block to = Block::poisoned(rows, width);
    run(CopyBlock{rows, width, from.from(), to.to(), false});
    expect_bits(to.packed(), values, "copy");
    run(CopyBlock{rows, width, from.from(), to.to(), true});
    std::vector<float> twice = values;
    add(twice.size(), values.data(), twice.data());
    expect_bits(to.packed(), twice, "sum");
  });
}

TEST(DeviceElementwise, SumsAndProductsGoFromLeftToRight) {
  for_each_size([](std::size_t rows, std::size_t width) {
    constexpr std::size_t kInputs = 5;
    SumOf sum{rows, width, kInputs, {}, {}};
    ProductOf product{rows, width, kInputs, {}, {}, false};
    std::vector<Block> inputs;
    std::vector<float> expected_sum = normals(0, rows * width);
    std::vector<float> expected_product = expected_sum;
    for (std::size_t i = 0; i < kInputs; ++i) {
      const std::vector<float> values = normals(i, rows * width);
      inputs.emplace_back(rows, width, values);
      if (i == 0) continue;
      add(values.size(), values.data(), expected_sum.data());
      multiply_by(values.size(), values.data(), expected_product.data());
    }
    for (std::size_t i = 0; i < kInputs; ++i) {
      sum.from[i] = product.from[i] = inputs[i].from();
    }
    Block to = Block::poisoned(rows, width);
    sum.to = product.to = to.to();
    run(sum);
    expect_bits(to.packed(), expected_sum, "sum");
    run(product);
    expect_bits(to.packed(), expected_product, "product");
    product.accumulate = true;
    run(product);
    std::vector<float> twice = expected_product;
    add(twice.size(), expected_product.data(), twice.data());
    expect_bits(to.packed(), twice, "accumulated product");
  });
}

TEST(DeviceElementwise, FunctionsHaveTheBitsOfTheActivations) {
  const std::pair<const char*, Function> functions[] = {{"sigmoid", Function::kSigmoid},
                                                        {"relu", Function::kRelu},
                                                        {"tanh", Function::kTanh},
                                                        {"gelu", Function::kGelu}};
  std::vector<float> x = normals(3, 10000);
  for (std::size_t i = 0; i < x.size(); i += 3) x[i] *= 40;
  x[0] = -0.0F;
  x[1] = std::numeric_limits<float>::infinity();
  x[2] = -x[1];
  for (const auto& [name, function] : functions) {
    const Activation& activation = *find_activation(name);
    std::vector<float> expected = x;
    activation.apply(1, x.size(), expected.data());
    std::vector<float> to = nans(x.size());
    run(Activate{x.size(), function, x.data(), to.data()});
    expect_bits(to, expected, name);
    const std::vector<float>& kept = activation.reads_input ? x : expected;
    std::vector<float> gradient = normals(4, x.size());
    std::vector<float> expected_gradient = gradient;
    activation.backward(1, x.size(), kept.data(), expected_gradient.data());
    run(ActivateBackward{x.size(), function, kept.data(), gradient.data()});
    expect_bits(gradient, expected_gradient, name);
  }
}

TEST(DeviceElementwise, BiasAndReluAreThoseOfAProduct) {
  for_each_size([](std::size_t rows, std::size_t width) {
    const std::vector<float> bias = normals(5, width);
    for (const char* const name : {"identity", "relu"}) {
      std::vector<float> expected = normals(6, rows * width);
      Block to(rows, width, expected);
      bias_activate(*find_activation(name), rows, width, bias.data(), expected.data());
      run(AddBias{rows, width, bias.data(), to.to(), *name == 'r'});
      expect_bits(to.packed(), expected, name);
    }
  });
}

TEST(DeviceElementwise, Trap41DropoutDrawsTheStreamsOfTheCpu) {
  for_each_size([](std::size_t rows, std::size_t width) {
    const std::vector<std::uint64_t> seed = {77};
    const std::uint64_t layer = stable_hash("hidden");
    const std::vector<float> values = normals(7, rows * width);
    const Block from(rows, width, values);
    Block mask = Block::poisoned(rows, width);
    Block to = Block::poisoned(rows, width);
    run(Dropout{rows, width, seed.data(), layer, 0.3F, from.from(), mask.to(), to.to()});
    std::vector<float> expected = nans(rows * width);
    for (std::size_t r = 0; r < rows; ++r) {
      dropout_mask(example_stream(seed[0], "hidden", r), 0.3F, width, expected.data() + r * width);
    }
    expect_bits(mask.packed(), expected, "mask");
    multiply_by(values.size(), values.data(), expected.data());
    expect_bits(to.packed(), expected, "values");
  });
}

TEST(DeviceElementwise, Trap39RoundsUnalignedWidthsToBfloat16AndFillsTheRestOfARow) {
  for_each_size([](std::size_t rows, std::size_t width) {
    const std::size_t padded = (width + 7) / 8 * 8;
    std::vector<float> values = normals(8, rows * width);
    if (rows > 0) values[0] = std::numeric_limits<float>::quiet_NaN();
    const Block from(rows, width, values);
    std::vector<std::uint16_t> to(rows * padded, 0xffff);
    run(RoundToBfloat16{rows, width, from.from(), to.data(), padded});
    std::vector<float> nothing_left(values.size(), 0.0F);
    std::vector<Bf16> expected(values.size());
    round_with_residual(values.size(), values.data(), 1.0F, nothing_left.data(), expected.data());
    for (std::size_t i = 0; i < to.size(); ++i) {
      const std::size_t column = i % padded;
      ASSERT_EQ(to[i], column < width ? expected[i / padded * width + column] : 0) << i;
    }
  });
}

}  // namespace
}  // namespace paddle::kernels::device
