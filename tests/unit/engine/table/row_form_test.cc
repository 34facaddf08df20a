#include "engine/table/row_form.h"

#include <limits>
#include <map>

#include <gtest/gtest.h>

#include "engine/table/sparse_table.h"
#include "engine/table/table_savepoint.h"
#include "tests/unit/engine/pserver/parameters.h"

namespace paddle::table {
namespace {

using Floats = std::vector<float>;

Floats numbers(std::uint64_t count, float from) {
  Floats floats(count);
  for (float& value : floats) value = from++;
  return floats;
}

Floats copy(std::span<const float> floats) {
  return {floats.begin(), floats.end()};
}

void expect_same(const Row& left, const Row& right) {
  EXPECT_EQ(left.id, right.id);
  EXPECT_EQ(left.marks.pack(), right.marks.pack());
  EXPECT_EQ(copy(left.value), copy(right.value));
  EXPECT_EQ(copy(left.state), copy(right.state));
  EXPECT_EQ(left.score.shows, right.score.shows);
  EXPECT_EQ(left.score.clicks, right.score.clicks);
}

TEST(RowForm, TheBytesAreThoseOfTheProtocolsPage) {
  const RowForm form{.width = 2, .state_width = 1, .has_score = true};
  const Floats value{1, -2}, state{0.5F, 0};
  Bytes row;
  form.add({.id = 0x0102030405060708,
            .marks = {.updates = 0x11223344, .passes_unseen = 0x5566, .sightings = 0x7788},
            .value = value,
            .state = state,
            .score = {8, 4}},
           row);
  const std::vector<int> expected{
      8,    7,    6,    5,    4, 3, 2,    1,     // id
      0x44, 0x33, 0x22, 0x11,                    // updates
      0x66, 0x55, 0x88, 0x77,                    // passes unseen, sightings
      0,    0,    0x80, 0x3f, 0, 0, 0,    0xc0,  // value
      0,    0,    0,    0x3f, 0, 0, 0,    0,     // state
      0,    0,    0,    0x41, 0, 0, 0x80, 0x40,  // shows, clicks
  };
  std::vector<int> found;
  for (const std::byte byte : row) found.push_back(std::to_integer<int>(byte));
  EXPECT_EQ(found, expected);
  EXPECT_EQ(form.bytes(), expected.size());
}

TEST(RowForm, RowsOfEveryShapeAreReadAsTheyWereAdded) {
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  const std::vector<parameter::RowMarks> marks{
      {}, parameter::RowMarks::unpack(kMost), {.updates = 7}, {.sightings = 3}};
  for (const std::uint64_t width : {1, 3, 64}) {
    for (const std::uint64_t state_width : {0, 1, 3}) {
      for (const bool has_score : {false, true}) {
        const RowForm form{width, state_width, has_score};
        std::vector<Floats> floats;
        std::vector<Row> rows;
        for (std::size_t i = 0; i < marks.size(); ++i) {
          floats.push_back(numbers(width * (1 + state_width), 100.0F * static_cast<float>(i)));
        }
        Bytes bytes;
        for (std::size_t i = 0; i < marks.size(); ++i) {
          const std::span<const float> all(floats[i]);
          rows.push_back({kMost - i, marks[i], all.first(width), all.subspan(width), {}});
          if (has_score) rows.back().score = {5, static_cast<float>(i)};
          form.add(rows.back(), bytes);
        }
        ASSERT_TRUE(form.check(bytes, rows.size()));
        for (std::size_t i = 0; i < rows.size(); ++i) {
          expect_same(form.read(bytes.data() + i * form.bytes()), rows[i]);
        }
      }
    }
  }
}

TEST(RowForm, LengthsThatDoNotFitAreNamed) {
  const RowForm form{.width = 3, .state_width = 1, .has_score = false};
  const Bytes bytes(3 * form.bytes() + 1);
  const ByteSpan all(bytes);
  EXPECT_TRUE(form.check({}, 0));
  EXPECT_TRUE(form.check(all.first(3 * form.bytes()), 3));
  EXPECT_FALSE(form.check({}, 1));
  EXPECT_FALSE(form.check(all.first(3 * form.bytes()), 2));
  EXPECT_FALSE(form.check(all.first(3 * form.bytes() - 1), 2));
  EXPECT_FALSE(form.check(all.first(3 * form.bytes() - 1), 3));
  // 2^61 rows of 40 bytes: the product would be 0 in 64 bits.
  EXPECT_FALSE(form.check({}, 1ULL << 61U));
  const Status refused = form.check(all, 3);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "expected 3 rows of 40 bytes, found 121 bytes");
}

// A table with rows, a candidate, counters, ages and scores.
wire::ParameterSet full_set() {
  auto set = test::small_set("adam", 1);
  auto& policy = *set.mutable_parameters(test::kTable)->mutable_table();
  policy.set_entry_count(2);
  policy.set_expire_passes(9);
  auto& shrink = *policy.mutable_shrink();
  shrink.set_label("click");
  shrink.set_decay(0.5F);
  shrink.set_threshold(0.01F);
  shrink.set_nonclick_coefficient(1);
  shrink.set_click_coefficient(1);
  return set;
}

void train(SparseTable& table) {
  const auto push = [&](const std::vector<std::uint64_t>& ids) {
    ASSERT_TRUE(table.reserve(ids.size()));
    Floats gradients;
    for (const std::uint64_t id : ids) {
      for (int i = 0; i < 3; ++i) gradients.push_back(0.1F * static_cast<float>(id % 7));
      gradients.insert(gradients.end(), {8, static_cast<float>(id % 3)});
    }
    ASSERT_TRUE(table.apply(0.1F, ids, gradients));
  };
  push({1, 2, 3, 4});
  push({1, 2, 3});
  push({1, 2});
  ASSERT_TRUE(table.end_pass());
  push({1});
}

std::vector<RowIndex::Entry> entries_of(const SparseTable& table) {
  std::vector<RowIndex::Entry> entries;
  table.scan(0, table.rows() + 1, entries);
  return entries;
}

Bytes bytes_of_all(const SparseTable& table) {
  Bytes bytes;
  for (const auto& entry : entries_of(table)) table.form().add(table.row(entry), bytes);
  std::vector<RowIndex::Entry> waiting;
  table.entry().scan(0, table.entry().candidates() + 1, waiting);
  for (const auto& entry : waiting) table.form().add(table.candidate(entry), bytes);
  return bytes;
}

TEST(RowForm, ATableHasTheSameBytesAfterItTookThemFromAnother) {
  const auto set = full_set();
  SparseTable table(set, test::kTable);
  train(table);
  EXPECT_EQ(table.rows(), 3U);
  EXPECT_EQ(table.entry().candidates(), 1U);
  const Bytes bytes = bytes_of_all(table);
  SparseTable other(set, test::kTable);
  ASSERT_TRUE(other.reserve(4));
  ASSERT_TRUE(other.form().check(bytes, 4));
  for (std::size_t at = 0; at < bytes.size(); at += other.form().bytes()) {
    EXPECT_TRUE(other.put(other.form().read(bytes.data() + at)));
  }
  EXPECT_EQ(bytes_of_all(other), bytes);
}

TEST(RowForm, ASavepointHasTheFloatsOfTheSameForm) {
  const auto set = full_set();
  SparseTable table(set, test::kTable);
  table.track_savepoints();
  train(table);
  table.begin_savepoint(true);
  std::map<std::uint64_t, Floats> saved;
  while (const auto bytes = table.take_savepoint(1U << 20U)) {
    if (bytes->empty()) continue;
    const auto part = SavepointPart::read(*bytes, table.form());
    ASSERT_TRUE(part) << part.error().message;
    if (part->kind != SavepointPart::Kind::kRows) continue;
    for (std::uint64_t i = 0; i < part->count; ++i) {
      const std::byte* const row = part->body.data() + i * table.form().bytes();
      saved[RowForm::id_at(row)] = copy(table.form().floats_at(row));
    }
  }
  EXPECT_EQ(saved.size(), table.rows());
  for (const auto& entry : entries_of(table)) {
    Bytes bytes;
    table.form().add(table.row(entry), bytes);
    EXPECT_EQ(saved.at(entry.id), copy(table.form().floats_at(bytes.data()))) << entry.id;
  }
}

}  // namespace
}  // namespace paddle::table
