// The rows of one sparse table on one shard: an index of ids over an arena of rows. A row has its
// value and optimizer state side by side, and the marks that the table's policies need. Row numbers
// are 0 to rows() - 1.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/result.h"
#include "engine/math/region.h"
#include "engine/math/row_access.h"
#include "engine/table/row_form.h"
#include "engine/table/row_index.h"
#include "engine/table/row_notes.h"
#include "proto/parameters.pb.h"

namespace paddle::table {

// Rows by recency, from the most recently pushed row to the least recently pushed one: a linked
// list over row numbers, with the id of each.
class RecencyList {
 public:
  static constexpr std::uint64_t kBytesPerRow = 16;

  static constexpr std::uint32_t kEnd = 0xffffffff;

  RecencyList() : nodes_(kSmallPageRows * sizeof(Node)) {}
  Status reserve(std::uint64_t rows) { return nodes_.reserve(rows * sizeof(Node)); }
  std::uint64_t bytes(std::uint64_t rows) const { return nodes_.resident(rows * sizeof(Node)); }

  void push_front(std::uint32_t number, std::uint64_t id) {
    at(number) = {kEnd, head_, id};
    (head_ == kEnd ? tail_ : at(head_).before) = number;
    head_ = number;
  }
  void move_to_front(std::uint32_t number) {
    if (head_ == number) return;
    remove(number);
    push_front(number, at(number).id);
  }
  std::uint32_t oldest() const { return tail_; }
  // The row that was pushed next after this one, or kEnd.
  std::uint32_t newer_than(std::uint32_t number) const { return at(number).before; }
  std::uint64_t id_of(std::uint32_t number) const { return at(number).id; }
  void remove(std::uint32_t number) {
    const Node node = at(number);
    (node.before == kEnd ? head_ : at(node.before).after) = node.after;
    (node.after == kEnd ? tail_ : at(node.after).before) = node.before;
  }
  // Gives the row another number; its place in the list stays.
  void renumber(std::uint32_t from, std::uint32_t to) {
    const Node node = at(from);
    at(to) = node;
    (node.before == kEnd ? head_ : at(node.before).after) = to;
    (node.after == kEnd ? tail_ : at(node.after).before) = to;
  }

 private:
  static constexpr std::uint64_t kSmallPageRows = 2U << 20U;
  struct Node {
    std::uint32_t before;  // pushed more recently
    std::uint32_t after;
    std::uint64_t id;
  };
  static_assert(sizeof(Node) == kBytesPerRow);
  Node& at(std::uint32_t number) const { return reinterpret_cast<Node*>(nodes_.data())[number]; }

  MemoryRegion nodes_;
  std::uint32_t head_ = kEnd;
  std::uint32_t tail_ = kEnd;
};

// Difference of a table from the last full snapshot: a byte for each row, and the ids of removed
// rows. A row counts as part of a snapshot from its export on, even while the snapshot is still
// being written.
class RowChanges {
 public:
  static constexpr std::uint64_t kBytesPerRow = 1;

  RowChanges() : marks_(kSmallPageRows) {}
  Status reserve(std::uint64_t rows) { return marks_.reserve(rows); }
  std::uint64_t bytes(std::uint64_t rows) const {
    return marks_.resident(rows) + removed_.capacity() * sizeof(std::uint64_t);
  }

  void on_create(std::uint32_t number) { at(number) = kNew | kChanged; }
  void on_update(std::uint32_t number) { at(number) |= kChanged; }
  void on_remove(std::uint32_t number, std::uint64_t id) {
    if ((at(number) & kNew) == 0) removed_.push_back(id);
  }
  // Gives the row another number.
  void renumber(std::uint32_t from, std::uint32_t to) { at(to) = at(from); }

  // begin_base(): a full snapshot begins. on_base(): it has exported this row.
  void begin_base() { removed_.clear(); }
  void on_base(std::uint32_t number) { at(number) = 0; }

  bool is_changed(std::uint32_t number) const { return at(number) != 0; }
  // Ids of rows that the last full snapshot contains and the table lacks, each once.
  std::span<const std::uint64_t> removed() const { return removed_; }

 private:
  static constexpr std::uint8_t kChanged = 1;
  static constexpr std::uint8_t kNew = 2;
  static constexpr std::uint64_t kSmallPageRows = 2U << 20U;
  std::uint8_t& at(std::uint32_t number) const {
    return reinterpret_cast<std::uint8_t*>(marks_.data())[number];
  }

  MemoryRegion marks_;
  std::vector<std::uint64_t> removed_;
};

// The state of each row in the table's savepoints, two bits a row, and the ids of removed rows. A
// savepoint in progress copies a row some time later, or just before an update changes it.
class RowSavepoints {
 public:
  RowSavepoints() : states_(MemoryRegion::kHugePageBytes) {}
  Status reserve(std::uint64_t rows) { return states_.reserve(words(rows) * sizeof(Word)); }
  std::uint64_t bytes(std::uint64_t rows) const {
    return states_.resident(words(rows) * sizeof(Word)) +
           (removed_.capacity() + savepoint_removed_.capacity()) * sizeof(std::uint64_t);
  }

  void on_create(std::uint32_t number) { set(number, kChanged); }
  void load(std::uint32_t number) const { load_line(&at(number)); }
  // True if the row was pending: the caller then copies it before it changes, and counts it in
  // take_pending().
  bool on_update(std::uint32_t number) {
    Word& word = at(number);
    const unsigned shift = shift_of(number);
    const bool was_pending = (word >> shift & kMask) == kPending;
    word = (word & ~(kMask << shift)) | kChanged << shift;
    return was_pending;
  }
  void take_pending(std::uint64_t count) { pending_ -= count; }
  // REQUIRES: the row is not pending.
  void on_remove(std::uint32_t number, std::uint64_t id) {
    PADDLE_CHECK(!is_pending(number));
    set(number, kUnchanged);
    removed_.push_back(id);
  }
  // Marks all rows as changed. REQUIRES: none is pending.
  void change_all(std::uint64_t rows) {
    PADDLE_CHECK(pending_ == 0);
    for (std::uint64_t i = 0; i < words(rows); ++i) {
      at(static_cast<std::uint32_t>(i * kRowsPerWord)) = kLowBits & used_bits(rows, i);
    }
  }
  // Gives the row the number of a row that was removed.
  void renumber(std::uint32_t from, std::uint32_t to) {
    set(to, state(from));
    set(from, kUnchanged);
  }

  // Begins a savepoint of all rows, or of those that have changed since the last savepoint began. A
  // savepoint that has not ended is dropped, and its rows count as changed.
  void begin(bool is_full, std::uint64_t rows) {
    pending_ = 0;
    for (std::uint64_t i = 0; i < words(rows); ++i) {
      Word& word = at(static_cast<std::uint32_t>(i * kRowsPerWord));
      const Word low = word & kLowBits;
      const Word high = word >> 1U & kLowBits;
      Word in_savepoint = is_open_ ? low | high : low & ~high;
      if (is_full) in_savepoint = kLowBits & used_bits(rows, i);
      word = in_savepoint << 1U;
      pending_ += static_cast<std::uint64_t>(std::popcount(in_savepoint));
    }
    if (!is_open_) savepoint_removed_.clear();
    savepoint_removed_.insert(savepoint_removed_.end(), removed_.begin(), removed_.end());
    removed_.clear();
    is_open_ = true;
  }
  // Ends the savepoint: the next one builds on it.
  void end() {
    PADDLE_CHECK(pending_ == 0);
    is_open_ = false;
    savepoint_removed_ = {};
  }

  std::uint64_t pending() const { return pending_; }
  bool is_pending(std::uint32_t number) const { return state(number) == kPending; }
  // Records that a pending row was copied.
  void on_copy(std::uint32_t number) {
    set(number, kCopied);
    --pending_;
  }
  // Ids removed after the savepoint that this one builds on began, and before this one did. An id
  // may occur twice, or may have a row again.
  std::span<const std::uint64_t> removed() const { return savepoint_removed_; }

  // Records that a row was restored from a savepoint, on which the next savepoint may build.
  void on_restore(std::uint32_t number) { set(number, kUnchanged); }
  // Drops the ids removed during a restore, which the restored savepoint lacks, too.
  void forget_removed() { removed_.clear(); }

 private:
  using Word = std::uint64_t;
  static constexpr Word kMask = 3;
  static constexpr Word kUnchanged = 0;
  static constexpr Word kChanged = 1;  // since the last savepoint began
  static constexpr Word kPending = 2;  // in the savepoint in progress, and not copied yet
  static constexpr Word kCopied =
      3;  // in the savepoint in progress, and unchanged since it was copied
  static constexpr Word kLowBits = 0x5555555555555555;
  static constexpr std::uint64_t kRowsPerWord = 32;

  static std::uint64_t words(std::uint64_t rows) {
    return (rows + kRowsPerWord - 1) / kRowsPerWord;
  }
  // The bits of word i that belong to rows.
  static Word used_bits(std::uint64_t rows, std::uint64_t i) {
    const std::uint64_t left = rows - i * kRowsPerWord;
    return left < kRowsPerWord ? (Word{1} << (2 * left)) - 1 : ~Word{0};
  }
  static unsigned shift_of(std::uint32_t number) { return number % kRowsPerWord * 2; }
  Word& at(std::uint32_t number) const {
    return reinterpret_cast<Word*>(states_.data())[number / kRowsPerWord];
  }
  Word state(std::uint32_t number) const { return at(number) >> shift_of(number) & kMask; }
  void set(std::uint32_t number, Word state) {
    Word& word = at(number);
    word = (word & ~(kMask << shift_of(number))) | state << shift_of(number);
  }

  MemoryRegion states_;
  std::uint64_t pending_ = 0;
  bool is_open_ = false;                          // a savepoint has begun and not ended
  std::vector<std::uint64_t> removed_;            // since the last savepoint began
  std::vector<std::uint64_t> savepoint_removed_;  // in the savepoint in progress
};

// The columns of a table's rows.
struct RowLayout {
  RowLayout(const wire::ParameterSet& set, const wire::ParameterSpec& spec);

  bool expires;             // a row stores the last pass in which it was pushed
  bool evicts;              // rows are listed by recency
  bool shrinks;             // a row has a score
  bool tracks;              // a row stores whether it changed since the last full snapshot
  bool savepoints = false;  // a row has a state for savepoints
  bool counts_updates;      // for the optimizer
  std::uint64_t width;
  std::uint64_t state_width;
  std::uint64_t floats;    // value, state and score
  std::uint64_t rows_max;  // from the table's bytes_max

  RowForm form() const { return {width, state_width, shrinks}; }
  std::uint64_t payload_bytes() const {
    return floats * sizeof(float) + (counts_updates ? sizeof(std::uint32_t) : 0);
  }
  // Memory of a row, including its part of the index.
  std::uint64_t bytes() const;
};

class RowStore {
 public:
  static constexpr std::uint64_t kRowsMax = (1ULL << 32U) - 2;
  static constexpr std::uint64_t kIndexBytesPerRow = 16;
  static constexpr std::size_t kLineFloats = 16;
  static constexpr std::size_t kLinesFetchedMax = 8;  // the hardware prefetches the rest

  // `preparer` may be null, else it must outlive the rows.
  RowStore(const RowLayout& layout, MemoryPreparer* preparer);

  const RowLayout& layout() const { return layout_; }
  RowIndex& index() { return index_; }
  const RowIndex& index() const { return index_; }
  std::uint64_t rows() const { return index_.size(); }
  std::uint64_t bytes() const;  // memory held, pages counted whole
  // How many more rows bytes_max allows; unlimited if rows are evicted.
  std::uint64_t room() const;

  // Called before `count` rows are created. kResource: too many rows, or no memory.
  Status reserve(std::uint64_t count);
  // Creates a row for an absent id and returns its number; the caller writes its value and state.
  // If the table is full and may evict rows, evicts the least recently pushed one.
  std::uint32_t create(std::uint64_t home, std::uint64_t hash, std::uint64_t id);
  // Called after rows were created and before they are written: maps their small pages at once.
  void populate() { arena_.populate(rows() * layout_.floats * sizeof(float)); }
  // Removes rows that are present. The last rows get the numbers that become free.
  Status remove(std::span<const std::uint64_t> ids);
  // Removes all rows at once. After that, no savepoint counts as made.
  void clear();
  // Gives rows a state for savepoints. REQUIRES: there is no row yet.
  void track_savepoints();
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
  // The last pass in which the row was pushed.
  std::uint16_t& seen(std::uint32_t number) const {
    return reinterpret_cast<std::uint16_t*>(seen_.data())[number];
  }
  RecencyList& recency() { return recency_; }
  const RecencyList& recency() const { return recency_; }
  RowChanges& changes() { return changes_; }
  RowSavepoints& savepoints() { return savepoints_; }
  const RowSavepoints& savepoints() const { return savepoints_; }

  // Loads the rows that have a number into the cache.
  void load(std::span<const std::uint32_t> numbers) const;
  // Starts to load them, without waiting.
  void start_load(std::span<const std::uint32_t> numbers) const;
  // Starts to load `width` floats of a row, up to where the hardware prefetches the rest.
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
  MemoryRegion update_counts_;  // uint32 by number, if the optimizer counts updates
  MemoryRegion seen_;           // uint16 by number, if rows expire
  RecencyList recency_;         // if rows are evicted
  RowChanges changes_;          // if snapshots may be deltas
  RowSavepoints savepoints_;    // if the job makes savepoints
  std::uint64_t evicted_ = 0;
};

}  // namespace paddle::table
