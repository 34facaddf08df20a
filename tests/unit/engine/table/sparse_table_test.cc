#include "engine/table/sparse_table.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "engine/math/initial.h"
#include "engine/math/optimizer.h"
#include "engine/math/region.h"
#include "tests/unit/engine/pserver/parameters.h"

namespace paddle::table {
namespace {

struct ModelRow {
  std::vector<float> value;
  std::vector<float> state;
  std::uint64_t count = 0;
};

TEST(SparseTable, Trap07EqualsAMapOfRowsOverTheFullIdRange) {
  const auto set = test::small_set("adam", 1);
  const auto& spec = set.parameters(test::kTable);
  const optim::UpdateRule rule(set.optimizer(), spec);
  SparseTable table(set, test::kTable);
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
      optim::fill_initial_row(row.value, spec, set.seed(), id);
    }
    rule.apply(0.1F, ++row.count, row.value, gradient, row.state);
    ASSERT_TRUE(table.reserve(1));
    table.apply(0.1F, {&id, 1}, gradient);
  }
  ASSERT_EQ(table.rows(), model.size());
  for (const auto& [id, row] : model) {
    std::vector<float> value(3);
    table.read({&id, 1}, value);
    ASSERT_EQ(value, row.value) << id;
  }
  std::vector<RowIndex::Entry> entries;
  table.scan(0, table.rows(), entries);
  ASSERT_EQ(entries.size(), model.size());
  for (const RowIndex::Entry& entry : entries) {
    const auto row = table.row(entry);
    const ModelRow& expected = model.at(row.id);
    ASSERT_EQ(row.marks.updates, expected.count);
    ASSERT_EQ(std::vector<float>(row.value.begin(), row.value.end()), expected.value);
    ASSERT_EQ(std::vector<float>(row.state.begin(), row.state.end()), expected.state);
  }
}

// Helpers of two threads, one taking from the front and one from the back.
void on_two_threads(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::thread other([&] {
    for (std::size_t i = count; i-- > count / 2;) work(i);
  });
  for (std::size_t i = 0; i < count / 2; ++i) work(i);
  other.join();
}

class SparseTableTogether : public testing::TestWithParam<std::tuple<Parallel, std::size_t>> {};
// Short rows, rows of which a few are fetched at once, and wider ones.
INSTANTIATE_TEST_SUITE_P(Help, SparseTableTogether,
                         testing::Combine(testing::Values(Parallel(), Parallel(on_two_threads)),
                                          testing::Values(3, 40, 300)),
                         [](const auto& each) {
                           return fmt::format("{}_{}_floats",
                                              std::get<0>(each.param) ? "two_threads" : "none",
                                              std::get<1>(each.param));
                         });

TEST_P(SparseTableTogether, ABatchEqualsItsRowsOneByOne) {
  const auto& [parallel, width] = GetParam();
  auto set = test::small_set("adagrad", 1);
  set.mutable_parameters(test::kTable)->set_dims(1, width);
  SparseTable together(set, test::kTable, parallel);
  SparseTable alone(set, test::kTable);
  Rng rng(9);
  for (int step = 0; step < 20; ++step) {
    std::vector<std::uint64_t> ids;
    for (std::uint64_t id = 0; id < 3000; ++id) {
      if (rng.below(width) < 2) ids.push_back(id * id);
    }
    std::vector<float> gradients(ids.size() * width);
    for (float& g : gradients) g = static_cast<float>(rng.normal());
    ASSERT_TRUE(together.reserve(ids.size()));
    together.apply(0.1F, ids, gradients);
    std::vector<float> values(ids.size() * width);
    together.read(ids, values);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      ASSERT_TRUE(alone.reserve(1));
      alone.apply(0.1F, {&ids[i], 1}, std::span(gradients).subspan(i * width, width));
      std::vector<float> value(width);
      alone.read({&ids[i], 1}, value);
      ASSERT_TRUE(std::ranges::equal(value, std::span(values).subspan(i * width, width)));
    }
  }
  EXPECT_EQ(together.rows(), alone.rows());
}

TEST(SparseTable, TakesHelpWithManyRows) {
  const auto set = test::small_set("sgd", 1);
  std::size_t calls = 0;
  std::size_t parts = 0;
  SparseTable table(set, test::kTable, [&](std::size_t count, const auto& work) {
    ++calls;
    parts += count;
    on_two_threads(count, work);
  });
  std::vector<std::uint64_t> ids(5000);
  std::iota(ids.begin(), ids.end(), 0);
  std::vector<float> values(ids.size() * 3);
  table.read(ids, values);
  EXPECT_EQ(calls, 1U);
  ASSERT_TRUE(table.reserve(ids.size()));
  table.apply(0.1F, ids, values);
  EXPECT_EQ(calls, 3U);  // finding rows, and updating them
  EXPECT_EQ(parts, 30U);
}

// Memory a row within 16 bytes of payload and optimizer state, from a million rows on.
class SparseTableMemory : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Methods, SparseTableMemory, testing::Values("sgd", "adam"));

TEST_P(SparseTableMemory, HoldsSixteenBytesARowBesideThePayload) {
  auto set = test::small_set(GetParam(), 1);
  set.mutable_parameters(test::kTable)->set_initial_std(0);
  const auto preparer = make_memory_preparer();
  SparseTable table(set, test::kTable, {}, preparer.get());
  // Values and state of 3 floats, and adam's count of updates.
  const std::uint64_t payload = 3 * (1 + table.state_width()) * sizeof(float) +
                                (GetParam() == std::string("adam") ? sizeof(std::uint32_t) : 0);
  // The lookup cache at its largest: most first values, then most ids.
  for (const std::size_t count : {LookupCache::kFirstValuesMax / 3, LookupCache::kIdsMax}) {
    std::vector<float> values(count * 3);
    table.read_to_push(std::vector<std::uint64_t>(count, 7), values);
  }
  std::vector<std::uint64_t> ids(1000);
  const std::vector<float> gradients(ids.size() * 3, 1.0F);
  for (std::uint64_t done = 0; done < 6'000'000; done += ids.size()) {
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = mix64(done + i);
    ASSERT_TRUE(table.reserve(ids.size()));
    table.apply(0.1F, ids, gradients);
    if (table.rows() < 1'000'000) continue;
    ASSERT_EQ(table.payload_bytes(), table.rows() * payload);
    ASSERT_LE(table.bytes() - table.payload_bytes(), 16 * table.rows()) << table.rows();
  }
}

TEST(SparseTable, ReadingCreatesNothing) {
  const auto set = test::small_set("sgd", 1);
  SparseTable table(set, test::kTable);
  std::vector<float> value(3);
  std::vector<float> expected(3);
  const std::uint64_t id = 12345;
  table.read({&id, 1}, value);
  optim::fill_initial_row(expected, set.parameters(test::kTable), set.seed(), 12345);
  EXPECT_EQ(value, expected);
  EXPECT_EQ(table.rows(), 0U);
}

TEST(SparseTable, StaticTableIsNeverUpdated) {
  auto set = test::small_set("sgd", 1);
  set.mutable_parameters(test::kTable)->set_is_static(true);
  SparseTable table(set, test::kTable);
  const std::uint64_t id = 1;
  table.apply(0.1F, {&id, 1}, std::vector<float>{1, 1, 1});
  EXPECT_EQ(table.rows(), 0U);
}

// Records the requests by address.
class Asked final : public MemoryPreparer {
 public:
  void prepare(std::byte* begin, std::size_t bytes) override { asked_[begin] = begin + bytes; }
  void forget(const std::byte*, std::size_t) override {}
  bool has(const std::byte* address) const {
    const auto behind = asked_.upper_bound(const_cast<std::byte*>(address));
    return behind != asked_.begin() && address < std::prev(behind)->second;
  }
  const std::map<std::byte*, std::byte*>& asked() const { return asked_; }

 private:
  std::map<std::byte*, std::byte*> asked_;
};

TEST(SparseTable, HasMemoryPreparedAheadOfManyRows) {
  constexpr std::size_t kFloats = 16;
  constexpr std::uint64_t kRows = 5'600'000;
  constexpr std::size_t kIds = 20'000;
  auto set = test::small_set("sgd", 1);
  set.mutable_parameters(test::kTable)->set_dims(1, kFloats);
  set.mutable_parameters(test::kTable)->set_initial_std(0);
  Asked preparer;
  SparseTable table(set, test::kTable, {}, &preparer);
  std::vector<std::uint64_t> ids(kIds);
  const std::vector<float> gradients(kIds * kFloats, 1.0F);
  for (std::uint64_t done = 0; done < kRows; done += kIds) {
    std::iota(ids.begin(), ids.end(), done);
    ASSERT_TRUE(table.reserve(kIds));
    table.apply(1, ids, gradients);
    if (done < kRows / 2) {
      ASSERT_TRUE(preparer.asked().empty());
    }
  }
  std::vector<RowIndex::Entry> some;  // in an order that has nothing to do with when they came
  table.scan(0, 10'000, some);
  std::size_t in_arena = 0;
  const auto* first = reinterpret_cast<const std::byte*>(table.row(some[0]).value.data());
  const auto* last = first;
  for (const RowIndex::Entry& entry : some) {
    const auto* const row = reinterpret_cast<const std::byte*>(table.row(entry).value.data());
    first = std::min(first, row);
    last = std::max(last, row);
    in_arena += preparer.has(row) ? 1 : 0;
  }
  EXPECT_GT(in_arena, some.size() / 10);  // were asked for before they came
  // The index lies elsewhere.
  EXPECT_TRUE(std::ranges::any_of(preparer.asked(), [&](const auto& range) {
    return range.second <= first || range.first > last + (64U << 20U);
  }));
}

// The values that a test reads for id 2, where id 1 has a row.
std::vector<float> tested_without_row(const wire::ParameterSet& set) {
  SparseTable table(set, test::kTable);
  const std::vector<std::uint64_t> trained{1}, asked{1, 2};
  EXPECT_TRUE(table.reserve(1));
  EXPECT_TRUE(table.apply(0.1F, trained, std::vector<float>(3, 1)));
  std::vector<float> values(6), row(3);
  std::vector<std::uint32_t> numbers(2);
  table.read_to_test(asked, values, numbers.data());
  table.read(trained, row);
  EXPECT_TRUE(std::equal(row.begin(), row.end(), values.begin()));
  EXPECT_NE(numbers[0], RowIndex::kNone);
  EXPECT_EQ(numbers[1], RowIndex::kNone);
  EXPECT_EQ(table.rows(), 1U);
  return {values.begin() + 3, values.end()};
}

wire::ParameterSet set_with(float mean, const std::function<void(wire::ParameterSpec&)>& change) {
  wire::ParameterSet set = test::small_set("sgd", 1);
  wire::ParameterSpec& spec = *set.mutable_parameters(test::kTable);
  spec.set_initial_mean(mean);
  spec.set_initial_std(0.5F);
  change(spec);
  return set;
}

TEST(SparseTable, ATestReadsTheMeanOfInitialValuesForAnIdWithoutARow) {
  const auto unchanged = [](wire::ParameterSpec&) {};
  EXPECT_EQ(tested_without_row(set_with(0, unchanged)), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(tested_without_row(set_with(0.25F, unchanged)), std::vector<float>(3, 0.25F));
}

TEST(SparseTable, AveragesOfAnIdWithoutARowAreTheMeanToo) {
  wire::ParameterSet set = set_with(0.25F, [](wire::ParameterSpec&) {});
  set.mutable_optimizer()->mutable_average()->set_window(0.5F);
  SparseTable table(set, test::kTable);
  const std::vector<std::uint64_t> ids{1};
  std::vector<float> values(3, 7);
  table.read_averages(ids, values);
  EXPECT_EQ(values, std::vector<float>(3, 0.25F));
}

TEST(SparseTable, ATestReadsTheInitialValueWhereTheTableDrawsUnseenIds) {
  const wire::ParameterSet set = set_with(
      0.25F, [](wire::ParameterSpec& spec) { spec.mutable_table()->set_draws_unseen(true); });
  std::vector<float> initial(3);
  optim::fill_initial_row(initial, set.parameters(test::kTable), set.seed(), 2);
  EXPECT_EQ(tested_without_row(set), initial);
}

// Such a table has no rows, and training reads just these values.
TEST(SparseTable, ATestReadsTheInitialValuesOfAStaticTable) {
  const wire::ParameterSet set =
      set_with(0, [](wire::ParameterSpec& spec) { spec.set_is_static(true); });
  SparseTable table(set, test::kTable);
  const std::vector<std::uint64_t> ids{5, 6, 1ULL << 63U};
  std::vector<float> trained(9), tested(9);
  table.read(ids, trained);
  table.read_to_test(ids, tested);
  EXPECT_EQ(tested, trained);
  EXPECT_NE(tested[0], 0);
}

TEST(SparseTable, ATestReadsZerosForAnIdThatIsNotAdmitted) {
  const wire::ParameterSet set = set_with(0.25F, [](wire::ParameterSpec& spec) {
    spec.mutable_table()->set_entry_count(2);
    spec.mutable_table()->set_draws_unseen(true);
  });
  SparseTable table(set, test::kTable);
  const std::vector<std::uint64_t> ids{1};
  std::vector<float> values(3, 7);
  table.read_to_test(ids, values);
  EXPECT_EQ(values, (std::vector<float>{0, 0, 0}));
}

}  // namespace
}  // namespace paddle::table
