#include "engine/model/nearest.h"

#include <cmath>

#include "base/rng.h"
#include "tests/unit/engine/snapshot/snapshot_fixture.h"

namespace paddle::inference {
namespace {

constexpr std::size_t kWidth = 3, kRows = 1500;  // several blocks

class NearestTest : public snapshot::SnapshotTest {
 protected:
  // A table of random rows, of which every seventh waits for admission and one is zero.
  void write_table() {
    Rng rng(5);
    auto writer = snapshot::SnapshotWriter::create(directory_, info());
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->begin_sparse(sparse_spec(), 0));
    for (std::uint64_t id = 0; id < kRows; ++id) {
      test::SavedRow row{.id = id, .marks = {}, .value = {}, .state = {}};
      for (std::size_t i = 0; i < kWidth; ++i)
        row.value.push_back(id == kZeroRow ? 0 : static_cast<float>(rng.below(1000)) - 400);
      if (id % 7 == 6) {
        row.marks = 1ULL << 48U;
      } else {
        table_.emplace_back(id, row.value);
      }
      ASSERT_TRUE(writer->add_rows(test::encoded({row})));
    }
    ASSERT_TRUE(writer->end_sparse());
    ASSERT_TRUE(writer->finish());
  }

  std::vector<std::optional<std::vector<Neighbour>>> nearest(const wire::ParameterSpec& spec,
                                                             const std::vector<std::uint64_t>& ids,
                                                             const NearestOptions& options) {
    const auto reader = snapshot::SnapshotReader::open(directory_);
    EXPECT_TRUE(reader);
    auto found = nearest_rows(*reader, spec, ids, options);
    EXPECT_TRUE(found);
    return *std::move(found);
  }

  // By the definition, in double.
  std::vector<std::pair<double, std::uint64_t>> expected(std::uint64_t id, bool centered) const {
    std::vector<double> mean(kWidth);
    for (const auto& [each, row] : table_) {
      for (std::size_t i = 0; centered && i < kWidth; ++i)
        mean[i] += row[i] / static_cast<double>(table_.size());
    }
    const auto& query = *std::ranges::find(table_, id, [](const auto& each) { return each.first; });
    std::vector<std::pair<double, std::uint64_t>> all;
    for (const auto& [each, row] : table_) {
      double dot = 0, own = 0, other = 0;
      for (std::size_t i = 0; i < kWidth; ++i) {
        const double a = query.second[i] - mean[i], b = row[i] - mean[i];
        dot += a * b;
        own += a * a;
        other += b * b;
      }
      if (each != id) all.emplace_back(other > 0 ? dot / std::sqrt(own * other) : 0, each);
    }
    std::ranges::sort(all, std::greater());
    return all;
  }

  static constexpr std::uint64_t kZeroRow = 9;
  std::vector<std::pair<std::uint64_t, std::vector<float>>> table_;
};

TEST_F(NearestTest, AreThoseOfTheDefinition) {
  write_table();
  for (const bool centered : {false, true}) {
    const std::vector<std::uint64_t> ids{3, 1499, 700, 3};
    const auto found = nearest(sparse_spec(), ids, {.count = 20, .centered = centered});
    ASSERT_EQ(found.size(), ids.size());
    for (std::size_t query = 0; query < ids.size(); ++query) {
      ASSERT_TRUE(found[query]);
      ASSERT_EQ(found[query]->size(), 20U);
      const auto all = expected(ids[query], centered);
      for (std::size_t i = 0; i < 20; ++i) {
        EXPECT_NEAR((*found[query])[i].cosine, all[i].first, 1e-5);
        const auto same = std::ranges::find(all, (*found[query])[i].id,
                                            [](const auto& each) { return each.second; });
        ASSERT_NE(same, all.end());
        EXPECT_NEAR(same->first, all[i].first, 1e-5);
      }
    }
  }
}

TEST_F(NearestTest, ARowThatIsNotThereHasNone) {
  write_table();
  const auto found = nearest(sparse_spec(), {6, kRows, 5, kZeroRow}, {.count = kRows});
  EXPECT_FALSE(found[0]) << "it waits for admission";
  EXPECT_FALSE(found[1]);
  ASSERT_TRUE(found[2]);
  EXPECT_EQ(found[2]->size(), table_.size() - 1) << "all but itself";
  ASSERT_TRUE(found[3]);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ((*found[3])[i].cosine, 0);
    EXPECT_EQ((*found[3])[i].id, i) << "of equal ones the smaller id is first";
  }
}

TEST_F(NearestTest, RowsOfADenseParameter) {
  auto spec = dense_spec();
  spec.clear_dims();
  spec.add_dims(4);
  spec.add_dims(2);
  auto writer = snapshot::SnapshotWriter::create(directory_, info());
  ASSERT_TRUE(writer);
  const std::vector<float> value = {1, 0, 0, 1, 3, 1, -1, 0};
  ASSERT_TRUE(writer->add_dense(spec, value, {}, 1));
  ASSERT_TRUE(writer->finish());
  const auto found = nearest(spec, {0}, {});
  ASSERT_TRUE(found[0]);
  ASSERT_EQ(found[0]->size(), 3U);
  EXPECT_EQ(found[0]->front().id, 2U);
  EXPECT_NEAR(found[0]->front().cosine, 3 / std::sqrt(10), 1e-6);
  EXPECT_EQ(found[0]->back().id, 3U);
  EXPECT_EQ(found[0]->back().cosine, -1);
}

}  // namespace
}  // namespace paddle::inference
