// The parts in which a sparse table's savepoint is handed out, and parts that are refused.
#include "tests/unit/engine/table/table_savepoint_fixture.h"

namespace paddle::table {
namespace {

std::uint64_t bytes_in(const Parts& parts) {
  std::uint64_t bytes = 0;
  for (const Bytes& part : parts) bytes += part.size();
  return bytes;
}

TEST(SparseTableSavepoints, ASavepointHasWhatChangedSinceTheOneBefore) {
  SparseTable table = SavepointCase{"", "sgd"}.table();
  Push push{std::vector<std::uint64_t>(20'000), std::vector<float>(60'000, 1.0F)};
  for (std::size_t i = 0; i < push.ids.size(); ++i) push.ids[i] = i;
  push.apply_to(table);
  constexpr std::uint64_t kRowBytes = 16 + 3 * sizeof(float);
  EXPECT_GT(bytes_in(take_whole_savepoint(table, true)), 20'000 * kRowBytes);
  EXPECT_LT(bytes_in(take_whole_savepoint(table, false)), kRowBytes * 4) << "nothing has changed";
  Push{{3, 5}, std::vector<float>(6, 1.0F)}.apply_to(table);
  const std::uint64_t two = bytes_in(take_whole_savepoint(table, false));
  EXPECT_GE(two, 2 * kRowBytes);
  EXPECT_LT(two, 6 * kRowBytes);
  // A savepoint that does not end leaves its rows to the next one.
  Push{{7, 9}, std::vector<float>(6, 1.0F)}.apply_to(table);
  table.begin_savepoint(false);
  while (table.take_savepoint(100)) {
  }
  EXPECT_EQ(bytes_in(take_whole_savepoint(table, false)), two);
  EXPECT_LT(bytes_in(take_whole_savepoint(table, false)), kRowBytes * 4);
}

// However many rows lie between two that belong to the savepoint, a call looks at some of them
// only.
TEST(SparseTableSavepoints, ATakeIsBoundedInRowsLookedAtAndInBytes) {
  SparseTable table = SavepointCase{"", "sgd"}.table();
  constexpr std::uint64_t kRows = 400'000;
  Push push{std::vector<std::uint64_t>(kRows), std::vector<float>(kRows * 3, 1.0F)};
  for (std::uint64_t i = 0; i < kRows; ++i) push.ids[i] = i;
  push.apply_to(table);
  table.begin_savepoint(true);
  while (const auto part = table.take_savepoint(64U << 10U)) ASSERT_LT(part->size(), 80U << 10U);
  table.end_savepoint();
  // Two rows at the ends of the table, in the order of the index.
  std::vector<RowIndex::Entry> entries;
  table.scan(0, kRows, entries);
  Push{{entries.front().id, entries.back().id}, std::vector<float>(6, 1.0F)}.apply_to(table);
  table.begin_savepoint(false);
  EXPECT_EQ(table.savepoint_rows_left(), 2U);
  std::size_t calls = 0;
  std::size_t empty = 0;
  while (const auto part = table.take_savepoint(64U << 10U)) {
    ++calls;
    empty += part->empty() ? 1 : 0;
  }
  EXPECT_GE(empty, 3U);
  EXPECT_LE(calls, 12U);
}

// One entry of the index cannot be looked at without its neighbours.
TEST(SparseTableSavepoints, APartOfWideRowsHasAsFewAsWereAskedFor) {
  auto set = test::small_set("sgd", 1);
  constexpr std::uint64_t kWideRow = 1U << 16U;
  set.mutable_parameters(test::kTable)->set_dims(1, kWideRow);
  set.mutable_parameters(test::kTable)->set_initial_std(0);  // no time for draws
  SparseTable table(set, test::kTable);
  table.track_savepoints();
  Push push{std::vector<std::uint64_t>(40), std::vector<float>(40 * kWideRow, 1.0F)};
  for (std::size_t i = 0; i < push.ids.size(); ++i) push.ids[i] = i;
  push.apply_to(table);
  const TableImage expected = image_of(table);
  Parts parts;
  table.begin_savepoint(true);
  while (const auto part = table.take_savepoint(kWideRow * sizeof(float))) {
    ASSERT_LT(part->size(), 4 * kWideRow * sizeof(float));
    if (!part->empty()) parts.push_back(*part);
  }
  EXPECT_EQ(table.savepoint_rows_left(), 0U);
  table.end_savepoint();
  SparseTable restored(set, test::kTable);
  restored.track_savepoints();
  restore(parts, restored);
  EXPECT_TRUE(image_of(restored) == expected);
}

TEST(SparseTableSavepoints, ATableThatLacksRowsOfItsSavepointIsFound) {
  Rng rng(4);
  SparseTable table = SavepointCase{"", "sgd"}.table();
  train(rng, table, 30);
  table.begin_savepoint(true);
  Parts parts;
  while (const auto part = table.take_savepoint(3000)) parts.push_back(*part);
  ASSERT_GT(parts.size(), 3U);
  SparseTable restored = SavepointCase{"", "sgd"}.table();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i == 2) continue;
    ASSERT_TRUE(restored.restore_savepoint(parts[i]));
  }
  const Status lacking = restored.check_restored();
  ASSERT_FALSE(lacking);
  EXPECT_EQ(lacking.error().code, Errc::kData);
  EXPECT_NE(lacking.error().message.find("words"), std::string::npos) << lacking.error().message;
}

// A small savepoint with a part of each kind.
Parts one_of_each_kind(const SavepointCase& of) {
  SparseTable table = of.table();
  const auto name = [&](std::vector<std::uint64_t> ids) {
    Push{ids, std::vector<float>(ids.size() * 3, 1.0F)}.apply_to(table);
  };
  name({1, 2, 3, 4});
  name({1, 2, 3});
  EXPECT_TRUE(table.end_pass());
  take_whole_savepoint(table, true);
  EXPECT_TRUE(table.end_pass());  // 1, 2 and 3 go
  name({1, 5, 7});
  name({7});
  return take_whole_savepoint(table, false);
}

TEST(SparseTableSavepoints, ATruncatedOrMiscountedPartIsRefused) {
  const SavepointCase of{"", "adam", 1, 2};
  const Parts parts = one_of_each_kind(of);
  std::vector<std::uint64_t> kinds;
  SparseTable table = of.table();
  const auto refuses = [&](const Bytes& bytes) {
    const Status status = table.restore_savepoint(bytes);
    return !status && status.error().code == Errc::kData && !status.error().hint.empty() &&
           status.error().message.find("words") != std::string::npos;
  };
  for (const Bytes& part : parts) {
    kinds.push_back(load_le<std::uint64_t>(part.data()));
    for (std::size_t size = 0; size < part.size(); ++size) {
      ASSERT_TRUE(refuses(Bytes(part.begin(), part.begin() + static_cast<std::ptrdiff_t>(size))))
          << "kind " << kinds.back() << ", " << size << " bytes";
    }
    Bytes longer = part;
    longer.resize(part.size() + 1);
    ASSERT_TRUE(refuses(longer));
    for (const std::uint64_t kind : {0ULL, 5ULL, ~0ULL}) {
      Bytes other = part;
      store_le(other.data(), kind);
      ASSERT_TRUE(refuses(other));
    }
    const auto count = load_le<std::uint64_t>(part.data() + 8);
    for (const std::uint64_t wrong :
         {count + 1, count + (std::uint64_t{1} << 61U), ~std::uint64_t{0}}) {
      Bytes other = part;
      store_le(other.data() + 8, wrong);
      const bool is_start = kinds.back() == 1;
      ASSERT_TRUE(refuses(other) || (is_start && wrong == count + 1)) << kinds.back();
    }
  }
  EXPECT_EQ(kinds, (std::vector<std::uint64_t>{1, 2, 3, 4}));
  EXPECT_EQ(table.rows(), 0U);
  struct Field {
    std::size_t at;
    std::uint64_t wrong;
  };
  // Flags, passes, floats, candidates.
  for (const Field field :
       {Field{16, 70'000}, Field{24, 70'000}, Field{32, 70'000}, Field{40, 0x70ULL << 56U}}) {
    Bytes other = parts.front();
    ASSERT_LE(field.at + sizeof field.wrong, other.size());
    store_le(other.data() + field.at, field.wrong);
    EXPECT_TRUE(refuses(other)) << field.at;
  }
}

TEST(SparseTableSavepoints, RemovedIdsAreMetOrNot) {
  const SavepointCase of{"", "adam", 1, 2};
  const Parts parts = one_of_each_kind(of);
  SparseTable table = of.table();
  Push{{2, 3, 9}, std::vector<float>(9, 1.0F)}.apply_to(table);
  Push{{2, 3, 9}, std::vector<float>(9, 1.0F)}.apply_to(table);
  ASSERT_EQ(table.rows(), 3U);
  for (const Bytes& part : parts) ASSERT_TRUE(table.restore_savepoint(part));
  EXPECT_EQ(table.rows(), 2U) << "7 is new, 9 stays";
  EXPECT_EQ(image_of(table).candidates.size(), 2U);
}

}  // namespace
}  // namespace paddle::table
