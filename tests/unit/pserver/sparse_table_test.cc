#include "engine/pserver/sparse_table.h"

#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "engine/base/rng.h"
#include "engine/param/initial.h"
#include "engine/param/optimizer.h"
#include "engine/param/partition.h"
#include "tests/unit/pserver/parameters.h"

namespace paddle::pserver {
namespace {

constexpr std::uint32_t kTable = 2;

struct ModelRow {
  std::vector<float> value;
  std::vector<float> state;
  std::uint64_t count = 0;
};

TEST(SparseTable, EqualsAMapOfRowsOverTheFullIdRange) {
  const auto set = test::small_set("adam", 1);
  const auto& spec = set.parameters(kTable);
  SparseTable table(set, kTable);
  std::map<std::uint64_t, ModelRow> model;
  Rng rng(42);
  for (int i = 0; i < 20000; ++i) {
    // A few hot ids, many cold ones, and the ends of the range.
    std::uint64_t id = rng.below(4) == 0 ? rng.below(16) : rng.next();
    if (i == 100) id = 0;
    if (i == 200) id = ~0ULL;
    std::vector<float> gradient(3);
    for (float& g : gradient) g = static_cast<float>(rng.normal());
    auto [it, is_new] = model.try_emplace(id);
    ModelRow& row = it->second;
    if (is_new) {
      row.value.resize(3);
      row.state.resize(6);
      param::fill_initial_row(row.value, spec, set.seed(), id);
    }
    param::apply_update(set.optimizer(), {0.1F * 0.5F, spec.l2(), ++row.count}, row.value, gradient,
                        row.state);
    table.apply(set, id, gradient);
  }
  ASSERT_EQ(table.rows(), model.size());
  for (const auto& [id, row] : model) {
    std::vector<float> value(3);
    table.read(id, value);
    ASSERT_EQ(value, row.value) << id;
  }
  const auto order = table.export_order();
  ASSERT_EQ(order.size(), model.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto row = table.row(order[i]);
    const ModelRow& expected = model.at(row.id);
    ASSERT_EQ(row.update_count, expected.count);
    ASSERT_EQ(std::vector<float>(row.state.begin(), row.state.end()), expected.state);
    if (i > 0) {
      const auto before = table.row(order[i - 1]).id;
      ASSERT_LT(std::pair(param::virtual_shard(before), before),
                std::pair(param::virtual_shard(row.id), row.id));
    }
  }
}

TEST(SparseTable, ReadingCreatesNothing) {
  const auto set = test::small_set("sgd", 1);
  SparseTable table(set, kTable);
  std::vector<float> value(3);
  std::vector<float> expected(3);
  table.read(12345, value);
  param::fill_initial_row(expected, set.parameters(kTable), set.seed(), 12345);
  EXPECT_EQ(value, expected);
  EXPECT_EQ(table.rows(), 0U);
}

TEST(SparseTable, StaticTableIsNeverUpdated) {
  auto set = test::small_set("sgd", 1);
  set.mutable_parameters(kTable)->set_is_static(true);
  SparseTable table(set, kTable);
  table.apply(set, 1, std::vector<float>{1, 1, 1});
  EXPECT_EQ(table.rows(), 0U);
}

}  // namespace
}  // namespace paddle::pserver
