// Sparse tables of several policies, pushes for them, and the parts of their savepoints.
#pragma once

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

using Parts = std::vector<Bytes>;

// All that a table holds. Bits of floats, so that -0 and 0 differ.
struct TableImage {
  using Row = std::tuple<std::uint64_t, std::vector<std::uint32_t>>;
  std::map<std::uint64_t, Row> rows;
  std::map<std::uint64_t, std::uint64_t> candidates;  // marks
  bool operator==(const TableImage&) const = default;
};

inline TableImage image_of(const SparseTable& table) {
  TableImage image;
  std::vector<RowIndex::Entry> entries;
  table.scan(0, table.rows() + 1, entries);
  for (const RowIndex::Entry& entry : entries) {
    const Row row = table.row(entry);
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

inline void on_pair_of_threads(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::jthread other([&] {
    for (std::size_t i = 1; i < count; i += 2) work(i);
  });
  for (std::size_t i = 0; i < count; i += 2) work(i);
}

struct SavepointCase {
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
    table.track_savepoints();
    return table;
  }
};
inline void PrintTo(const SavepointCase& one, std::ostream* out) {
  *out << one.name;
}

struct Push {
  std::vector<std::uint64_t> ids;
  std::vector<float> gradients;

  void apply_to(SparseTable& table) const {
    ASSERT_TRUE(table.reserve(ids.size()));
    table.apply(0.1F, ids, gradients);
  }
};

// Some ids that came often, and some that are new or long gone.
inline Push random_push(Rng& rng, const SparseTable& table) {
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

inline void train(Rng& rng, SparseTable& table, std::size_t pushes) {
  for (std::size_t i = 0; i < pushes; ++i) random_push(rng, table).apply_to(table);
}

// Takes the savepoint that has begun while the table is trained on, and passes end.
inline Parts take_while_training(Rng& rng, SparseTable& table) {
  Parts parts;
  while (const auto part = table.take_savepoint(1 + rng.below(40'000))) {
    if (!part->empty()) parts.push_back(*part);
    if (rng.below(2) == 0) train(rng, table, rng.below(3));
    if (rng.below(12) == 0) {
      EXPECT_TRUE(table.end_pass());
    }
  }
  EXPECT_FALSE(table.is_making_savepoint());
  EXPECT_EQ(table.savepoint_rows_left(), 0U);
  return parts;
}

inline void restore(const Parts& parts, SparseTable& table) {
  for (const Bytes& part : parts) ASSERT_TRUE(table.restore_savepoint(part));
  EXPECT_TRUE(table.check_restored());
}

inline Parts take_whole_savepoint(SparseTable& table, bool is_full) {
  Parts parts;
  table.begin_savepoint(is_full);
  while (const auto part = table.take_savepoint(1U << 20U)) {
    if (!part->empty()) parts.push_back(*part);
  }
  table.end_savepoint();
  return parts;
}

}  // namespace paddle::table
