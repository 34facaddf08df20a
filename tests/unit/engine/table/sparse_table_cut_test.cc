// Cuts of a sparse table that is trained on while they are taken, and tables restored from them.
#include <algorithm>
#include <map>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "engine/table/sparse_table.h"
#include "tests/unit/engine/pserver/parameters.h"

namespace paddle::table {
namespace {

using Parts = std::vector<Bytes>;

// All that a table holds. Bits of floats, so that -0 and 0 differ.
struct TableImage {
  using Row = std::tuple<std::uint64_t, std::vector<std::uint32_t>>;
  std::map<std::uint64_t, Row> rows;
  std::map<std::uint64_t, std::uint64_t> candidates;  // marks
  bool operator==(const TableImage&) const = default;
};

TableImage image_of(const SparseTable& table) {
  TableImage image;
  std::vector<RowIndex::Entry> entries;
  table.scan(0, table.rows() + 1, entries);
  for (const RowIndex::Entry& entry : entries) {
    const SparseTable::Row row = table.row(entry);
    std::vector<std::uint32_t> bits;
    for (const auto floats : {row.value, row.state}) {
      for (const float value : floats) bits.push_back(std::bit_cast<std::uint32_t>(value));
    }
    bits.push_back(std::bit_cast<std::uint32_t>(row.score.shows));
    bits.push_back(std::bit_cast<std::uint32_t>(row.score.clicks));
    image.rows[row.id] = {row.marks.pack(), std::move(bits)};
  }
  entries.clear();
  table.entry().scan(0, table.entry().candidates() + 1, entries);
  for (const RowIndex::Entry& entry : entries) {
    image.candidates[entry.id] = table.candidate(entry).marks.pack();
  }
  return image;
}

void on_pair_of_threads(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::jthread other([&] {
    for (std::size_t i = 1; i < count; i += 2) work(i);
  });
  for (std::size_t i = 0; i < count; i += 2) work(i);
}

struct CutCase {
  std::string name;
  std::string method;
  std::uint32_t expire_passes = 0;
  std::uint32_t entry_count = 0;
  bool shrinks = false;
  std::uint64_t rows_max = 0;  // above it, rows are evicted
  bool is_parallel = false;

  wire::ParameterSet set() const {
    auto set = test::small_set(method, 1);
    auto& policy = *set.mutable_parameters(test::kTable)->mutable_table();
    policy.set_expire_passes(expire_passes);
    if (entry_count > 0) policy.set_entry_count(entry_count);
    if (shrinks) {
      policy.mutable_shrink()->set_label("click");
      policy.mutable_shrink()->set_decay(0.6F);
      policy.mutable_shrink()->set_threshold(0.4F);
      policy.mutable_shrink()->set_nonclick_coefficient(0.2F);
      policy.mutable_shrink()->set_click_coefficient(1);
    }
    if (rows_max > 0) {
      policy.set_evict(true);
      policy.set_bytes_max(1);
      const SparseTable table(set, test::kTable);
      policy.set_bytes_max(table.bytes_for(rows_max));
    }
    return set;
  }
  SparseTable table() const {
    SparseTable table(set(), test::kTable, is_parallel ? Parallel(on_pair_of_threads) : Parallel());
    table.track_cuts();
    return table;
  }
};

struct Push {
  std::vector<std::uint64_t> ids;
  std::vector<float> gradients;

  void apply_to(SparseTable& table) const {
    ASSERT_TRUE(table.reserve(ids.size()));
    table.apply(0.1F, ids, gradients);
  }
};

// Some ids that came often, and some that are new or long gone.
Push random_push(Rng& rng, const SparseTable& table) {
  std::vector<std::uint64_t> ids(1 + rng.below(rng.below(4) == 0 ? 2500 : 60));
  for (std::uint64_t& id : ids) id = mix64(rng.below(rng.below(2) == 0 ? 500 : 8000));
  std::ranges::sort(ids);
  ids.erase(std::ranges::unique(ids).begin(), ids.end());
  std::vector<float> gradients(ids.size() * table.push_width());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const bool is_note = i % table.push_width() >= table.width();
    gradients[i] = is_note ? static_cast<float>(rng.below(3)) : static_cast<float>(rng.normal());
  }
  return {ids, gradients};
}

void train(Rng& rng, SparseTable& table, std::size_t pushes) {
  for (std::size_t i = 0; i < pushes; ++i) random_push(rng, table).apply_to(table);
}

// Takes the cut that has begun while the table is trained on, and passes end.
Parts take_while_training(Rng& rng, SparseTable& table) {
  Parts parts;
  while (const auto part = table.take_cut(1 + rng.below(40'000))) {
    if (!part->empty()) parts.push_back(*part);
    if (rng.below(2) == 0) train(rng, table, rng.below(3));
    if (rng.below(12) == 0) {
      EXPECT_TRUE(table.end_pass());
    }
  }
  EXPECT_FALSE(table.is_cutting());
  EXPECT_EQ(table.cut_rows_left(), 0U);
  return parts;
}

void restore(const Parts& parts, SparseTable& table) {
  for (const Bytes& part : parts) ASSERT_TRUE(table.restore_cut(part));
  EXPECT_TRUE(table.check_restored());
}

class SparseTableCut : public testing::TestWithParam<CutCase> {};
INSTANTIATE_TEST_SUITE_P(
    Tables, SparseTableCut,
    testing::Values(CutCase{"plain", "sgd"}, CutCase{"parallel", "adam", 0, 0, false, 0, true},
                    CutCase{"expires", "adagrad", 2}, CutCase{"waits", "adam", 2, 3},
                    CutCase{"shrinks", "sgd", 0, 0, true},
                    CutCase{"shrinks_and_expires", "adam", 3, 2, true, 0, true},
                    CutCase{"evicts", "adam", 0, 0, false, 1500},
                    CutCase{"evicts_and_expires", "adagrad", 1, 2, false, 2000, true}),
    [](const auto& one) { return one.param.name; });

TEST_P(SparseTableCut, ChainsRestoreTheTableAsItWasAtEachCut) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    SparseTable table = GetParam().table();
    SparseTable follows = GetParam().table();  // restored from each cut as it comes
    Parts chain;
    train(rng, table, 15);
    for (int cut = 0; cut < 8; ++cut) {
      table.begin_cut(cut == 0);
      if (rng.below(4) == 0) {  // it is dropped for another, whole or in part
        for (std::uint64_t i = rng.below(8); i > 0 && table.take_cut(2000); --i) {
          train(rng, table, 1);
        }
        if (rng.below(2) == 0) {
          ASSERT_TRUE(table.end_pass());
        }
        table.begin_cut(cut == 0);
      }
      const TableImage expected = image_of(table);
      const Parts parts = take_while_training(rng, table);
      table.end_cut();
      restore(parts, follows);
      ASSERT_TRUE(image_of(follows) == expected) << "cut " << cut;
      chain.insert(chain.end(), parts.begin(), parts.end());
      SparseTable anew = GetParam().table();
      restore(chain, anew);
      ASSERT_TRUE(image_of(anew) == expected) << "cut " << cut;
      train(rng, table, rng.below(6));
      if (rng.below(3) == 0) {
        ASSERT_TRUE(table.end_pass());
      }
    }
  }
}

TEST_P(SparseTableCut, ARestoredTableGoesOnAsTheOneThatWasCut) {
  Rng rng(77);
  SparseTable table = GetParam().table();
  Parts chain;
  for (int cut = 0; cut < 4; ++cut) {
    train(rng, table, 12);
    ASSERT_TRUE(table.end_pass());
    train(rng, table, 5);
    table.begin_cut(cut == 0);
    while (const auto part = table.take_cut(30'000)) chain.push_back(*part);
    std::erase_if(chain, [](const Bytes& part) { return part.empty(); });
    table.end_cut();
  }
  SparseTable restored = GetParam().table();
  restore(chain, restored);
  table.take_evicted();
  table.take_shrunk();
  restored.take_evicted();
  for (int step = 0; step < 60; ++step) {
    const Push push = random_push(rng, table);
    push.apply_to(table);
    push.apply_to(restored);
    if (step % 20 == 19) {
      ASSERT_EQ(*table.end_pass(), *restored.end_pass());
    }
    ASSERT_EQ(table.take_evicted(), restored.take_evicted());
    ASSERT_EQ(table.take_shrunk(), restored.take_shrunk());
  }
  ASSERT_TRUE(image_of(table) == image_of(restored));
}

// The next cut of a restored table builds on the one that it was restored from.
TEST_P(SparseTableCut, CutsOfARestoredTableContinueTheChain) {
  Rng rng(5);
  SparseTable table = GetParam().table();
  train(rng, table, 20);
  table.begin_cut(true);
  Parts chain = take_while_training(rng, table);
  table.end_cut();
  SparseTable restored = GetParam().table();
  restore(chain, restored);
  train(rng, restored, 1);
  ASSERT_TRUE(restored.end_pass());
  restored.begin_cut(false);
  const TableImage expected = image_of(restored);
  const Parts next = take_while_training(rng, restored);
  restored.end_cut();
  chain.insert(chain.end(), next.begin(), next.end());
  SparseTable again = GetParam().table();
  restore(chain, again);
  EXPECT_TRUE(image_of(again) == expected);
}

std::uint64_t bytes_in(const Parts& parts) {
  std::uint64_t bytes = 0;
  for (const Bytes& part : parts) bytes += part.size();
  return bytes;
}

Parts take_whole_cut(SparseTable& table, bool is_full) {
  Parts parts;
  table.begin_cut(is_full);
  while (const auto part = table.take_cut(1U << 20U)) {
    if (!part->empty()) parts.push_back(*part);
  }
  table.end_cut();
  return parts;
}

TEST(SparseTableCuts, ACutHasWhatChangedSinceTheOneBefore) {
  SparseTable table = CutCase{"", "sgd"}.table();
  Push push{std::vector<std::uint64_t>(20'000), std::vector<float>(60'000, 1.0F)};
  for (std::size_t i = 0; i < push.ids.size(); ++i) push.ids[i] = i;
  push.apply_to(table);
  constexpr std::uint64_t kRowBytes = 16 + 3 * sizeof(float);
  EXPECT_GT(bytes_in(take_whole_cut(table, true)), 20'000 * kRowBytes);
  EXPECT_LT(bytes_in(take_whole_cut(table, false)), kRowBytes * 4) << "nothing has changed";
  Push{{3, 5}, std::vector<float>(6, 1.0F)}.apply_to(table);
  const std::uint64_t two = bytes_in(take_whole_cut(table, false));
  EXPECT_GE(two, 2 * kRowBytes);
  EXPECT_LT(two, 6 * kRowBytes);
  // A cut that does not end leaves its rows to the next one.
  Push{{7, 9}, std::vector<float>(6, 1.0F)}.apply_to(table);
  table.begin_cut(false);
  while (table.take_cut(100)) {
  }
  EXPECT_EQ(bytes_in(take_whole_cut(table, false)), two);
  EXPECT_LT(bytes_in(take_whole_cut(table, false)), kRowBytes * 4);
}

// However many rows lie between two that belong to the cut, a call looks at some of them only.
TEST(SparseTableCuts, ATakeIsBoundedInRowsLookedAtAndInBytes) {
  SparseTable table = CutCase{"", "sgd"}.table();
  constexpr std::uint64_t kRows = 400'000;
  Push push{std::vector<std::uint64_t>(kRows), std::vector<float>(kRows * 3, 1.0F)};
  for (std::uint64_t i = 0; i < kRows; ++i) push.ids[i] = i;
  push.apply_to(table);
  table.begin_cut(true);
  while (const auto part = table.take_cut(64U << 10U)) ASSERT_LT(part->size(), 80U << 10U);
  table.end_cut();
  // Of two rows at the ends of the table, all in the order of the index.
  std::vector<RowIndex::Entry> entries;
  table.scan(0, kRows, entries);
  Push{{entries.front().id, entries.back().id}, std::vector<float>(6, 1.0F)}.apply_to(table);
  table.begin_cut(false);
  EXPECT_EQ(table.cut_rows_left(), 2U);
  std::size_t calls = 0;
  std::size_t empty = 0;
  while (const auto part = table.take_cut(64U << 10U)) {
    ++calls;
    empty += part->empty() ? 1 : 0;
  }
  EXPECT_GE(empty, 3U);
  EXPECT_LE(calls, 12U);
}

TEST(SparseTableCuts, ATableThatLacksRowsOfItsCutIsFound) {
  Rng rng(4);
  SparseTable table = CutCase{"", "sgd"}.table();
  train(rng, table, 30);
  table.begin_cut(true);
  Parts parts;
  while (const auto part = table.take_cut(3000)) parts.push_back(*part);
  ASSERT_GT(parts.size(), 3U);
  SparseTable restored = CutCase{"", "sgd"}.table();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i == 2) continue;
    ASSERT_TRUE(restored.restore_cut(parts[i]));
  }
  const Status lacking = restored.check_restored();
  ASSERT_FALSE(lacking);
  EXPECT_EQ(lacking.error().code, Errc::kData);
  EXPECT_NE(lacking.error().message.find("words"), std::string::npos) << lacking.error().message;
}

// A small cut with a part of each kind.
Parts one_of_each_kind(const CutCase& of) {
  SparseTable table = of.table();
  const auto name = [&](std::vector<std::uint64_t> ids) {
    Push{ids, std::vector<float>(ids.size() * 3, 1.0F)}.apply_to(table);
  };
  name({1, 2, 3, 4});
  name({1, 2, 3});
  EXPECT_TRUE(table.end_pass());
  take_whole_cut(table, true);
  EXPECT_TRUE(table.end_pass());  // 1, 2 and 3 go
  name({1, 5, 7});
  name({7});
  return take_whole_cut(table, false);
}

TEST(SparseTableCuts, ATruncatedOrMiscountedPartIsRefused) {
  const CutCase of{"", "adam", 1, 2};
  const Parts parts = one_of_each_kind(of);
  std::vector<std::uint64_t> kinds;
  SparseTable table = of.table();
  const auto refuses = [&](const Bytes& bytes) {
    const Status status = table.restore_cut(bytes);
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
  for (const std::size_t at : {16, 24, 32, 47}) {  // flags, passes, floats, candidates' top
    Bytes other = parts.front();
    store_le(other.data() + at, std::uint64_t{70'000});
    EXPECT_TRUE(refuses(other)) << at;
  }
}

TEST(SparseTableCuts, RemovedIdsAreMetOrNot) {
  const CutCase of{"", "adam", 1, 2};
  const Parts parts = one_of_each_kind(of);
  SparseTable table = of.table();
  Push{{2, 3, 9}, std::vector<float>(9, 1.0F)}.apply_to(table);
  Push{{2, 3, 9}, std::vector<float>(9, 1.0F)}.apply_to(table);
  ASSERT_EQ(table.rows(), 3U);
  for (const Bytes& part : parts) ASSERT_TRUE(table.restore_cut(part));
  EXPECT_EQ(table.rows(), 2U) << "7 is new, 9 stays";
  EXPECT_EQ(image_of(table).candidates.size(), 2U);
}

}  // namespace
}  // namespace paddle::table
