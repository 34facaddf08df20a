#include "engine/math/row_wise.h"
#include "tests/unit/engine/math/run_kernel.h"

namespace paddle::kernels::device {
namespace {

TEST(DeviceRowWise, LayerNormHasTheBitsOfTheCpu) {
  for_each_size([](std::size_t rows, std::size_t width) {
    constexpr float kEpsilon = 1e-5F;
    const std::vector<float> x = normals(1, rows * width);
    const std::vector<float> gain = normals(2, width);
    const std::vector<float> bias = normals(3, width);
    std::vector<float> y = nans(x.size());
    std::vector<float> statistics = nans(2 * rows);
    run(LayerNorm{rows, width, kEpsilon, x.data(), gain.data(), bias.data(), y.data(),
                  statistics.data()});
    std::vector<float> expected = nans(x.size());
    std::vector<float> expected_statistics = nans(2 * rows);
    layer_norm(rows, width, kEpsilon, x.data(), gain.data(), bias.data(), expected.data(),
               expected_statistics.data());
    expect_bits(y, expected, "y");
    expect_bits(statistics, expected_statistics, "statistics");
  });
}

TEST(DeviceRowWise, LayerNormBackwardHasTheBitsOfTheCpu) {
  for_each_size([](std::size_t rows, std::size_t width) {
    const std::vector<float> x = normals(1, rows * width);
    const std::vector<float> gain = normals(2, width);
    const std::vector<float> statistics = normals(3, 2 * rows);
    const std::vector<float> gradient = normals(4, rows * width);
    std::vector<float> to = nans(x.size());
    std::vector<float> expected = nans(x.size());
    std::vector<float> gain_gradient(width);
    std::vector<float> bias_gradient(width);
    for (const bool accumulate : {false, true}) {
      run(LayerNormBackward{rows, width, x.data(), gain.data(), statistics.data(), gradient.data(),
                            to.data(), accumulate});
      layer_norm_backward(rows, width, x.data(), gain.data(), statistics.data(), gradient.data(),
                          accumulate, expected.data(), gain_gradient.data(), bias_gradient.data());
      expect_bits(to, expected, "gradient");
    }
  });
}

TEST(DeviceRowWise, PairSumHasTheBitsOfTheCpu) {
  for_each_size([](std::size_t rows, std::size_t factors) {
    constexpr std::size_t kFields[] = {1, 3, 2};
    PairSum kernel{rows, factors, std::size(kFields), {}, {}, {}, {}};
    std::vector<std::vector<float>> values;
    std::vector<Block> blocks;
    for (const std::size_t fields : kFields) {
      values.push_back(normals(fields, rows * fields * factors));
      blocks.emplace_back(rows, fields * factors, values.back());
    }
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      kernel.from[b] = blocks[b].from();
      kernel.fields[b] = kFields[b];
    }
    Block to = Block::poisoned(rows, 1);
    Block sums = Block::poisoned(rows, factors);
    kernel.to = to.to();
    kernel.sums = sums.to();
    run(kernel);
    std::vector<float> expected;
    std::vector<float> expected_sums(rows * factors);
    for (std::size_t r = 0; r < rows; ++r) {
      std::vector<float> squares(factors);
      float* const sum = expected_sums.data() + r * factors;
      for (std::size_t b = 0; b < blocks.size(); ++b) {
        add_fields(kFields[b], factors, values[b].data() + r * kFields[b] * factors, sum,
                   squares.data());
      }
      expected.push_back(pair_sum(factors, sum, squares.data()));
    }
    expect_bits(to.packed(), expected, "pair sums");
    expect_bits(sums.packed(), expected_sums, "sums");
  });
}

TEST(DeviceRowWise, PairSumBackwardHasTheBitsOfTheCpu) {
  for_each_size([](std::size_t rows, std::size_t factors) {
    constexpr std::size_t kFields = 3;
    const std::vector<float> v = normals(1, rows * kFields * factors);
    const std::vector<float> all = normals(2, rows * factors);
    const std::vector<float> slopes = normals(3, rows);
    const Block from(rows, kFields * factors, v);
    const Block sums(rows, factors, all);
    const Block gradient(rows, 1, slopes);
    Block to = Block::poisoned(rows, kFields * factors);
    std::vector<float> expected = nans(v.size());
    for (const bool accumulate : {false, true}) {
      run(PairSumBackward{rows, factors, kFields, from.from(), sums.from(), gradient.from(),
                          to.to(), accumulate});
      for (std::size_t r = 0; r < rows; ++r) {
        const std::size_t at = r * kFields * factors;
        pair_sum_backward(kFields, factors, v.data() + at, all.data() + r * factors, slopes[r],
                          accumulate, expected.data() + at);
      }
      expect_bits(to.packed(), expected, "gradient");
    }
  });
}

TEST(DeviceRowWise, CosineHasTheBitsOfTheCpu) {
  for_each_size([](std::size_t rows, std::size_t width) {
    constexpr float kScale = 5;
    std::vector<float> a = normals(1, rows * width);
    const std::vector<float> b = normals(2, rows * width);
    if (rows > 1) std::fill_n(a.data() + width, width, 0.0F);
    const std::vector<float> slopes = normals(3, rows);
    const Block of_a(rows, width, a);
    const Block of_b(rows, width, b);
    const Block gradient(rows, 1, slopes);
    Block to = Block::poisoned(rows, 1);
    run(CosineSimilarity{rows, width, kScale, of_a.from(), of_b.from(), to.to()});
    Block slope = Block::poisoned(rows, width);
    std::vector<float> expected_slope = nans(a.size());
    for (const bool accumulate : {false, true}) {
      run(CosineSimilarityBackward{rows, width, kScale, of_a.from(), of_b.from(), gradient.from(),
                                   slope.to(), accumulate});
      std::vector<float> expected;
      for (std::size_t r = 0; r < rows; ++r) {
        const std::size_t at = r * width;
        const Cosine of = cosine(width, a.data() + at, b.data() + at);
        expected.push_back(kScale * of.value());
        cosine_backward(width, of, kScale * slopes[r], a.data() + at, b.data() + at, accumulate,
                        expected_slope.data() + at);
      }
      expect_bits(to.packed(), expected, "cosine");
      expect_bits(slope.packed(), expected_slope, "gradient");
    }
  });
}

}  // namespace
}  // namespace paddle::kernels::device
