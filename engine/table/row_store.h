// The rows of one sparse table on one shard: an index of ids over an arena of rows, value and
// optimizer state side by side, and the marks that the table's policies ask for. Row numbers are 0
// to rows() - 1.
#pragma once

#include <span>
#include <utility>

#include "base/result.h"
#include "engine/memory/prefetch.h"
#include "engine/parameter/row_notes.h"
#include "engine/table/recency_list.h"
#include "engine/table/row_changes.h"
#include "engine/table/row_cuts.h"
#include "engine/table/row_index.h"
#include "proto/parameters.pb.h"

namespace paddle::table {

// The columns of a table's rows.
struct RowLayout {
  RowLayout(const wire::ParameterSet& set, const wire::ParameterSpec& spec);

  bool expires;         // a row knows the last pass that named it
  bool evicts;          // rows are listed by recency
  bool shrinks;         // a row has a score
  bool tracks;          // a row knows whether it has changed since the last full snapshot
  bool cuts = false;    // a row has a state towards cuts
  bool counts_updates;  // for the optimizer
  std::uint64_t width;
  std::uint64_t state_width;
  std::uint64_t floats;    // value, state and score
  std::uint64_t rows_max;  // by the table's bytes_max

  std::uint64_t payload_bytes() const {
    return floats * sizeof(float) + (counts_updates ? sizeof(std::uint32_t) : 0);
  }
  // Memory of a row, its part of the index included.
  std::uint64_t bytes() const;
};

class RowStore {
 public:
  static constexpr std::uint64_t kRowsMax = (1ULL << 32U) - 2;
  static constexpr std::uint64_t kIndexBytesPerRow = 16;
  static constexpr std::size_t kLineFloats = 16;
  static constexpr std::size_t kLinesFetchedMax = 8;  // of a row; the hardware follows from there

  // `preparer` may be null; it outlives the rows.
  RowStore(const RowLayout& layout, MemoryPreparer* preparer);

  const RowLayout& layout() const { return layout_; }
  RowIndex& index() { return index_; }
  const RowIndex& index() const { return index_; }
  std::uint64_t rows() const { return index_.size(); }
  std::uint64_t bytes() const;  // memory held, pages counted whole
  // How many more rows bytes_max allows; without end where rows are evicted.
  std::uint64_t room() const;

  // Before `count` rows are created. kResource: too many rows, or no memory.
  Status reserve(std::uint64_t count);
  // A number for an absent id, whose value and state are the caller's to write. Evicts the row that
  // was named least recently when the table is full.
  std::uint32_t create(std::uint64_t home, std::uint64_t hash, std::uint64_t id);
  // After rows were created, before they are written: gives their small pages at once.
  void populate() { arena_.populate(rows() * layout_.floats * sizeof(float)); }
  // Removes rows that are present; the last ones take the numbers that become free.
  Status remove(std::span<const std::uint64_t> ids);
  // Removes all rows at once. Cuts then count as never made.
  void clear();
  // Before the first row: rows have states towards cuts from now on.
  void track_cuts();
  std::uint64_t take_evicted() { return std::exchange(evicted_, 0); }

  float* value(std::uint32_t number) const {
    return reinterpret_cast<float*>(arena_.data()) + number * layout_.floats;
  }
  float* state(std::uint32_t number) const { return value(number) + layout_.width; }
  parameter::RowScore& score(std::uint32_t number) const {
    return *reinterpret_cast<parameter::RowScore*>(value(number) +
                                                   layout_.width * (1 + layout_.state_width));
  }
  std::uint32_t& update_count(std::uint32_t number) const {
    return reinterpret_cast<std::uint32_t*>(update_counts_.data())[number];
  }
  // The last pass that named the row.
  std::uint16_t& seen(std::uint32_t number) const {
    return reinterpret_cast<std::uint16_t*>(seen_.data())[number];
  }
  RecencyList& recency() { return recency_; }
  const RecencyList& recency() const { return recency_; }
  RowChanges& changes() { return changes_; }
  RowCuts& cuts() { return cuts_; }
  const RowCuts& cuts() const { return cuts_; }

  // Loads the rows that have a number into the cache.
  void load(std::span<const std::uint32_t> numbers) const;
  // Starts to load `width` floats of a row, as far as the hardware does not follow by itself.
  [[gnu::always_inline]] void prefetch_row(const float* data, std::size_t width) const {
    const std::size_t most = std::min(width, kLinesFetchedMax * kLineFloats);
    for (std::size_t i = 0; i < most; i += kLineFloats) prefetch(data + i);
    if (crosses_lines_) prefetch(data + most - 1);
  }

 private:
  std::uint32_t evict();
  void move(std::uint32_t from, std::uint32_t to);

  RowLayout layout_;
  MemoryPreparer* preparer_;
  bool crosses_lines_;  // whether a row may end on one line more than its size takes
  RowIndex index_;
  MemoryRegion arena_;
  MemoryRegion update_counts_;  // uint32 by number, where the optimizer asks for them
  MemoryRegion seen_;           // uint16 by number, where rows expire
  RecencyList recency_;         // where rows are evicted
  RowChanges changes_;          // where snapshots may be deltas
  RowCuts cuts_;                // where the job makes cuts
  std::uint64_t evicted_ = 0;
};

}  // namespace paddle::table
