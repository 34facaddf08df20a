// A push that uses the lookup of the read before it leaves the same table as one without.
#include "engine/table/lookup.h"

#include <numeric>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "engine/table/sparse_table.h"
#include "tests/unit/engine/pserver/parameters.h"

namespace paddle::table {
namespace {

constexpr std::size_t kWidth = 3;

using Ids = std::vector<std::uint64_t>;

Ids some_ids(Rng& rng, std::uint64_t among) {
  Ids ids;
  for (std::uint64_t id = 0; id < among; ++id) {
    if (rng.below(2) == 0) ids.push_back(id * id);
  }
  return ids;
}

std::vector<float> some_floats(Rng& rng, std::size_t count) {
  std::vector<float> floats(count);
  for (float& one : floats) one = static_cast<float>(rng.normal());
  return floats;
}

void push(SparseTable& table, const Ids& ids, const std::vector<float>& gradients) {
  ASSERT_TRUE(table.reserve(ids.size()));
  table.apply(0.1F, ids, gradients);
}

void expect_equal(const SparseTable& table, const SparseTable& other) {
  ASSERT_EQ(table.rows(), other.rows());
  std::vector<RowIndex::Entry> entries;
  std::vector<RowIndex::Entry> others;
  table.scan(0, table.rows(), entries);
  other.scan(0, other.rows(), others);
  ASSERT_EQ(entries.size(), others.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto row = table.row(entries[i]);
    const auto expected = other.row(others[i]);
    ASSERT_EQ(row.id, expected.id);
    ASSERT_EQ(row.marks.updates, expected.marks.updates) << row.id;
    ASSERT_TRUE(std::ranges::equal(row.value, expected.value)) << row.id;
    ASSERT_TRUE(std::ranges::equal(row.state, expected.state)) << row.id;
  }
}

// Events between a read and the push of the same ids.
enum class Between { kNothing, kPush, kPut, kPassEnd, kRead, kCount };

class LookupCacheTest : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Methods, LookupCacheTest, testing::Values("sgd", "adam", "ftrl"));

TEST_P(LookupCacheTest, APushAfterAReadEqualsOneWithoutIt) {
  auto set = test::small_set(GetParam(), 1);
  set.mutable_parameters(test::kTable)->mutable_table()->set_expire_passes(2);
  // Helpers that take the blocks from the last to the first.
  SparseTable read(set, test::kTable, [](std::size_t count, const auto& work) {
    while (count > 0) work(--count);
  });
  SparseTable unread(set, test::kTable);
  Rng rng(3);
  for (int step = 0; step < 200; ++step) {
    const Ids ids = some_ids(rng, 20 + 16 * static_cast<std::uint64_t>(step));
    const std::vector<float> gradients = some_floats(rng, ids.size() * kWidth);
    std::vector<float> values(ids.size() * kWidth);
    read.read_to_push(ids, values);
    switch (static_cast<Between>(rng.below(static_cast<std::uint64_t>(Between::kCount)))) {
      case Between::kPush: {
        const Ids more = some_ids(rng, 4000);
        const std::vector<float> floats = some_floats(rng, more.size() * kWidth);
        push(read, more, floats);
        push(unread, more, floats);
        break;
      }
      case Between::kPut: {
        const std::vector<float> value = some_floats(rng, kWidth);
        const std::vector<float> state(kWidth * read.state_width(), 0.25F);
        for (SparseTable* table : {&read, &unread}) {
          ASSERT_TRUE(table->reserve(1));
          table->put({ids[ids.size() / 2], {}, value, state});
        }
        break;
      }
      case Between::kPassEnd:
        ASSERT_TRUE(read.end_pass());
        ASSERT_TRUE(unread.end_pass());
        break;
      case Between::kRead:
        read.read_to_push(std::span(ids).subspan(1), std::span(values).subspan(kWidth));
        break;
      default:
        break;
    }
    push(read, ids, gradients);
    push(unread, ids, gradients);
    expect_equal(read, unread);
  }
}

// As many ids are created as were removed, and the index is rebuilt in between.
TEST(LookupCache, IsForgottenWhenOtherRowsHaveTheNumbers) {
  auto set = test::small_set("sgd", 1);
  set.mutable_parameters(test::kTable)->mutable_table()->set_expire_passes(1);
  SparseTable read(set, test::kTable);
  SparseTable unread(set, test::kTable);
  Ids ids(1000);
  Ids others(1000);
  std::iota(ids.begin(), ids.end(), 0);
  std::iota(others.begin(), others.end(), 5000);
  const std::vector<float> gradients(ids.size() * kWidth, 1.0F);
  std::vector<float> values(gradients.size());
  for (SparseTable* table : {&read, &unread}) {
    push(*table, ids, gradients);
    if (table == &read) read.read_to_push(ids, values);
    ASSERT_TRUE(table->end_pass());
    ASSERT_TRUE(table->end_pass());
    ASSERT_EQ(table->rows(), 0U);
    push(*table, others, gradients);
    push(*table, ids, gradients);
  }
  EXPECT_EQ(read.rows(), 2000U);
  expect_equal(read, unread);
}

// More ids, and more absent rows, than the cache keeps.
TEST(LookupCache, HoldsNoMoreThanItMay) {
  const auto set = test::small_set("sgd", 1);
  SparseTable read(set, test::kTable);
  SparseTable unread(set, test::kTable);
  for (const std::size_t count :
       {LookupCache::kIdsMax, LookupCache::kIdsMax, LookupCache::kIdsMax + 1}) {
    Ids ids(count);
    std::iota(ids.begin(), ids.end(), 0);
    const std::vector<float> gradients(count * kWidth, 1.0F);
    std::vector<float> values(gradients.size());
    const std::uint64_t before = read.bytes();
    read.read_to_push(ids, values);
    EXPECT_LE(read.bytes() - before, LookupCache::kIdsMax * 12 + LookupCache::kFirstValuesMax * 4);
    push(read, ids, gradients);
    push(unread, ids, gradients);
    expect_equal(read, unread);
  }
}

TEST(LookupCache, HoldsForTheSameIdsAndIndexAlone) {
  LookupCache cache;
  cache.start(4, Ids{1, 2, 3});
  EXPECT_TRUE(cache.is_of(4, Ids{1, 2, 3}));
  EXPECT_FALSE(cache.is_of(5, Ids{1, 2, 3}));
  EXPECT_FALSE(cache.is_of(4, Ids{1, 2}));
  EXPECT_FALSE(cache.is_of(4, Ids{1, 2, 4}));
}

TEST(LookupCache, KeepsTheValuesOfAbsentIdsAlone) {
  LookupCache cache;
  std::uint32_t* const numbers = cache.start(4, Ids{1, 2, 3});
  numbers[0] = numbers[2] = RowIndex::kNone;
  numbers[1] = 7;
  cache.keep_first_values(std::vector<float>{1, 2, 3, 4, 5, 6}, 2);
  const float* const values = cache.cursor().first_values;
  ASSERT_NE(values, nullptr);
  EXPECT_EQ(std::vector<float>(values, values + 4), (std::vector<float>{1, 2, 5, 6}));
  cache.start(5, Ids{1});
  EXPECT_EQ(cache.cursor().first_values, nullptr);
}

}  // namespace
}  // namespace paddle::table
