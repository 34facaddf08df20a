#include "engine/math/row_wise.h"
#include "engine/math/rows.h"
#include "tests/unit/engine/math/run_kernel.h"

namespace paddle::kernels::device {
namespace {

constexpr std::size_t kTableRows = 6;

// Indices of rows of a table, as a batch has them.
enum class Ids { kRandom, kAllEqual, kWithoutRows };

std::vector<std::uint32_t> draw(Ids ids, std::size_t count) {
  std::vector<std::uint32_t> indices(count);
  Rng rng(11);
  for (std::uint32_t& index : indices) {
    index = ids == Ids::kAllEqual ? 5 : static_cast<std::uint32_t>(rng.below(kTableRows));
    if (ids == Ids::kWithoutRows && rng.below(3) == 0) index = kNoRow;
  }
  return indices;
}

// The lists that the host makes of indices.
class OccurrenceLists {
 public:
  // Every step-th index counts.
  explicit OccurrenceLists(const std::vector<std::uint32_t>& indices, std::size_t step = 1) {
    for (std::uint32_t row = 0; row < kTableRows; ++row) {
      starts_.push_back(static_cast<std::uint32_t>(order_.size()));
      for (std::size_t i = 0; i < indices.size(); i += step) {
        if (indices[i] == row) order_.push_back(static_cast<std::uint32_t>(i / step));
      }
    }
    starts_.push_back(static_cast<std::uint32_t>(order_.size()));
  }
  Occurrences lists() const { return {rows_.data(), starts_.data(), order_.data()}; }

 private:
  std::vector<std::uint32_t> rows_ = {kTableRows};
  std::vector<std::uint32_t> starts_;
  std::vector<std::uint32_t> order_;
};

// More warps than the table has rows: the rest do nothing.
constexpr std::size_t kRowsMax = kTableRows + 2;

template <class Use>
void for_each_case(Use use) {
  for (const Ids ids : {Ids::kRandom, Ids::kAllEqual, Ids::kWithoutRows}) {
    for (const bool weighted : {false, true}) {
      for_each_size([&](std::size_t rows, std::size_t width) { use(ids, weighted, rows, width); });
    }
  }
}

TEST(DeviceRows, GatherHasTheBitsOfTheCpu) {
  for_each_case([](Ids ids, bool weighted, std::size_t rows, std::size_t width) {
    constexpr std::size_t kColumns = 3;
    const std::vector<std::uint32_t> indices = draw(ids, rows * kColumns);
    const std::vector<float> weights = normals(1, indices.size());
    const std::vector<float> table = normals(2, kTableRows * width);
    Block to = Block::poisoned(rows, kColumns * width);
    run(Gather{rows, width, kColumns, indices.data(), weighted ? weights.data() : nullptr,
               table.data(), to.to()});
    std::vector<float> expected = nans(rows * kColumns * width);
    gather_rows(table.data(), indices, {width, 1, width}, expected.data());
    for (std::size_t i = 0; weighted && i < indices.size(); ++i) {
      pool_rows(table.data(), width, {&indices[i], 1}, 1, &weights[i], &expected[i * width]);
    }
    expect_bits(to.packed(), expected, "rows");
  });
}

TEST(DeviceRows, Trap38GradientsOfGatheredRowsAddUpInTheOrderOfTheIndices) {
  for_each_case([](Ids ids, bool weighted, std::size_t rows, std::size_t width) {
    constexpr std::size_t kColumns = 3;
    const std::vector<std::uint32_t> indices = draw(ids, rows * kColumns);
    const OccurrenceLists occurrences(indices);
    const std::vector<float> weights = normals(1, indices.size());
    const float* const factors = weighted ? weights.data() : nullptr;
    const std::vector<float> slopes = normals(2, rows * kColumns * width);
    const Block gradient(rows, kColumns * width, slopes);
    std::vector<float> expected = normals(3, kTableRows * width);
    std::vector<float> table_gradient = expected;
    GatherBackward kernel{kRowsMax,
                          width,
                          kColumns,
                          occurrences.lists(),
                          factors,
                          gradient.from(),
                          table_gradient.data(),
                          true};
    run(kernel);
    scatter_add_rows(slopes.data(), {width, 1, width}, indices, 1, factors, expected.data());
    expect_bits(table_gradient, expected, "gradient");
    kernel.accumulate = false;
    run(kernel);
    expected.assign(expected.size(), 0);
    scatter_add_rows(slopes.data(), {width, 1, width}, indices, 1, factors, expected.data());
    expect_bits(table_gradient, expected, "gradient alone");
  });
}

// Rows of which a piece has a part, the whole or the end, beside rows that occur too seldom for it.
TEST(DeviceRows, RowsThatOccurOftenAreAddedUpInPieces) {
  constexpr std::size_t kWidth = 10;
  constexpr std::size_t kPiece = Occurrences::kPiece;
  const std::vector<std::vector<std::size_t>> cases{{kPiece + 1, 0, 3, 0, 0, 0},
                                                    {3, 5 * kPiece, 1, 0, kPiece, 2},
                                                    {kPiece, kPiece + 1, 2 * kPiece, 0, 0, 0},
                                                    {1, 700, 5, 1300, 900, 0},
                                                    {0, 0, 0, 0, 0, 4 * kPiece},
                                                    {kPiece, 1, 1, 1, 0, 0}};
  for (const std::vector<std::size_t>& counts : cases) {
    std::vector<std::uint32_t> indices;
    for (std::uint32_t row = 0; row < kTableRows; ++row) {
      indices.insert(indices.end(), counts[row], row);
    }
    Rng rng(indices.size());
    for (std::size_t i = indices.size(); i > 1; --i)
      std::swap(indices[i - 1], indices[rng.below(i)]);
    const OccurrenceLists lists(indices);
    const std::vector<float> slopes = normals(1, indices.size() * kWidth);
    const Block gradient(indices.size(), kWidth, slopes);
    const std::size_t most = indices.size() + kPiece;  // room for a larger batch
    std::vector<float> partials = nans(Occurrences::partial_count(most) * kWidth);
    std::vector<std::uint32_t> counters(Occurrences::piece_count(most));
    for (const bool accumulate : {false, true}) {
      std::vector<float> whole = normals(2, kTableRows * kWidth);
      std::vector<float> found = whole;
      GatherBackward kernel{kRowsMax,        kWidth,       1,         lists.lists(), nullptr,
                            gradient.from(), whole.data(), accumulate};
      run(kernel);
      kernel.table_gradient = found.data();
      kernel.occurrences.partials = partials.data();
      kernel.occurrences.counters = counters.data();
      kernel.occurrences.most = most;
      run(kernel);
      EXPECT_EQ(counters, std::vector<std::uint32_t>(counters.size())) << "for the next kernel";
      for (std::size_t i = 0; i < found.size(); ++i) {
        const std::size_t count = counts[i / kWidth];
        if (count <= kPiece) {
          ASSERT_EQ(found[i], whole[i]) << i;
        } else {
          ASSERT_NEAR(found[i], whole[i], 1e-7F * static_cast<float>(count)) << i;
        }
      }
    }
  }
}

// Bags of 0 to 18 rows, for two slots.
struct Bags {
  static constexpr std::size_t kSlots = 2;
  std::vector<std::uint32_t> starts{0};
  std::vector<std::uint32_t> bag_of;  // of each index
  std::vector<std::uint32_t> indices;
  std::vector<float> weights;
  std::vector<float> scales;

  Bags(Ids ids, std::size_t rows) {
    for (std::uint32_t bag = 0; bag < kSlots * rows; ++bag) {
      bag_of.insert(bag_of.end(), mix64(bag) % 19, bag);
      starts.push_back(static_cast<std::uint32_t>(bag_of.size()));
    }
    indices = draw(ids, bag_of.size());
    weights = normals(4, indices.size());
    scales = normals(5, kSlots * rows);
  }
  std::span<const std::uint32_t> rows_of(std::size_t bag) const {
    return std::span(indices).subspan(starts[bag], starts[bag + 1] - starts[bag]);
  }
};

TEST(DeviceRows, PoolsHaveTheBitsOfTheCpu) {
  for_each_case([](Ids ids, bool weighted, std::size_t rows, std::size_t width) {
    const Bags bags(ids, rows);
    const std::vector<float> table = normals(1, kTableRows * width);
    Block to = Block::poisoned(rows, Bags::kSlots * width);
    run(Pool{rows, width, Bags::kSlots, bags.indices.data(), bags.starts.data(),
             weighted ? bags.weights.data() : nullptr, weighted ? bags.scales.data() : nullptr,
             table.data(), to.to()});
    std::vector<float> expected = nans(rows * Bags::kSlots * width);
    for (std::size_t bag = 0; bag < Bags::kSlots * rows; ++bag) {
      pool_rows(table.data(), width, bags.rows_of(bag), weighted ? bags.scales[bag] : 1.0F,
                weighted ? bags.weights.data() + bags.starts[bag] : nullptr,
                expected.data() + (bag % rows * Bags::kSlots + bag / rows) * width);
    }
    expect_bits(to.packed(), expected, "sums");
  });
}

TEST(DeviceRows, Trap38GradientsOfPooledRowsAddUpInTheOrderOfTheIndices) {
  for_each_case([](Ids ids, bool weighted, std::size_t rows, std::size_t width) {
    const Bags bags(ids, rows);
    const OccurrenceLists occurrences(bags.indices);
    const std::vector<float> slopes = normals(2, rows * Bags::kSlots * width);
    const Block gradient(rows, Bags::kSlots * width, slopes);
    std::vector<float> expected = normals(3, kTableRows * width);
    std::vector<float> table_gradient = expected;
    run(PoolBackward{kRowsMax, width, rows, occurrences.lists(), bags.bag_of.data(),
                     weighted ? bags.weights.data() : nullptr,
                     weighted ? bags.scales.data() : nullptr, gradient.from(),
                     table_gradient.data(), true});
    for (std::size_t bag = 0; bag < Bags::kSlots * rows; ++bag) {
      scatter_add_rows(slopes.data() + (bag % rows * Bags::kSlots + bag / rows) * width,
                       {width, 1, 0}, bags.rows_of(bag), weighted ? bags.scales[bag] : 1.0F,
                       weighted ? bags.weights.data() + bags.starts[bag] : nullptr,
                       expected.data());
    }
    expect_bits(table_gradient, expected, "gradient");
  });
}

// Here `weighted` is: with a bias and scales.
TEST(DeviceRows, Trap38SampledCostsHaveTheBitsOfTheCpu) {
  for_each_case([](Ids ids, bool weighted, std::size_t rows, std::size_t width) {
    constexpr std::size_t kCandidates = 11;
    constexpr float kScale = 0.37F;
    const std::size_t step = weighted ? 2 : 1;
    std::vector<std::uint32_t> indices = draw(ids, rows * kCandidates * step);
    for (std::size_t i = 0; i < indices.size(); i += step) indices[i + step - 1] = indices[i];
    const std::vector<float> scales = normals(1, rows * kCandidates);
    const std::vector<float> weight = normals(2, kTableRows * width);
    const std::vector<float> bias = normals(3, kTableRows);
    const std::vector<float> values = normals(4, rows * width);
    const Block x(rows, width, values);
    Block slopes = Block::poisoned(rows, kCandidates);
    Block x_gradient = Block::poisoned(rows, width);
    std::vector<double> costs(rows * kCandidates, std::nan(""));
    std::vector<float> weight_gradient(weight.size());
    std::vector<float> bias_gradient(bias.size());
    run(SampledCost{rows, width, kCandidates, indices.data(), weighted ? scales.data() : nullptr,
                    x.from(), weight.data(), weighted ? bias.data() : nullptr, kScale, slopes.to(),
                    costs.data()});
    run(SampledCostBackward{rows, width, kCandidates, weighted, indices.data(), weight.data(),
                            slopes.from(), x_gradient.to(), false});
    const OccurrenceLists occurrences(indices, step);
    run(SampledTableBackward{kRowsMax, width, kCandidates, occurrences.lists(), x.from(),
                             slopes.from(), weight_gradient.data()});
    run(SampledTableBackward{
        kRowsMax, 1, kCandidates, occurrences.lists(), {}, slopes.from(), bias_gradient.data()});
    std::vector<float> expected_slopes;
    std::vector<float> expected(values.size());
    std::vector<float> expected_weight(weight.size());
    std::vector<float> expected_bias(bias.size());
    constexpr std::uint32_t kFirst = 0;
    std::vector<float> unused(width);  // a gradient that the card computed before
    for (std::size_t i = 0; i < rows * kCandidates; ++i) {
      const std::uint32_t row = indices[i * step];
      expected_slopes.push_back(0);
      if (row == kNoRow) {
        ASSERT_EQ(costs[i], 0);
        continue;
      }
      const float* const of = values.data() + i / kCandidates * width;
      float score = dot(width, of, weight.data() + row * width);
      if (weighted) score += bias[row];
      const float logit = weighted ? score - scales[i] : score;
      const ElementCost cost = candidate_cost_of(logit, i % kCandidates == 0, kScale);
      ASSERT_EQ(costs[i], cost.cost);
      expected_slopes.back() = cost.slope;
      dots_backward(width, of, weight.data() + row * width, 1, &kFirst, 1, &cost.slope,
                    expected.data() + i / kCandidates * width,
                    expected_weight.data() + row * width);
      expected_bias[row] += cost.slope;
    }
    expect_bits(slopes.packed(), expected_slopes, "slopes");
    expect_bits(x_gradient.packed(), expected, "gradient of x");
    expect_bits(weight_gradient, expected_weight, "gradient of the weight");
    expect_bits(bias_gradient, expected_bias, "gradient of the bias");
    run(SampledCostBackward{rows, width, kCandidates, weighted, indices.data(), weight.data(),
                            slopes.from(), x_gradient.to(), true});
    for (std::size_t i = 0; i < rows * kCandidates; ++i) {
      const std::uint32_t row = indices[i * step];
      if (row == kNoRow) continue;
      dots_backward(width, values.data() + i / kCandidates * width, weight.data() + row * width, 1,
                    &kFirst, 1, &expected_slopes[i], expected.data() + i / kCandidates * width,
                    unused.data());
    }
    expect_bits(x_gradient.packed(), expected, "accumulated gradient of x");
  });
}

}  // namespace
}  // namespace paddle::kernels::device
