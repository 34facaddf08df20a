// Savepoints of a sparse table: the parts of a savepoint, and the savepoint in progress that makes
// them.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "engine/table/entry_policy.h"
#include "engine/table/row_store.h"

namespace paddle::table {

// Parts of a table's savepoint, as bytes. Each part has a header, u64 kind and u64 count, and then
//   kStart       u64 1 if the savepoint is full, u64 passes ended, u64 floats of a row, u64
//   candidates;
//                count: rows of the table at the savepoint
//   kRemoved     count ids
//   kCandidates  count ids, and for each u32 sightings | pass last seen << 16
//   kRows        count rows in the form of row_form.h, with u64 updates | pass last seen << 32 as
//   marks
// A savepoint is a kStart, and any number of the other parts in this order. Integers are
// little-endian.
struct SavepointPart {
  enum class Kind : std::uint64_t { kStart = 1, kRemoved, kCandidates, kRows };

  static constexpr std::size_t kHeaderBytes = 2 * sizeof(std::uint64_t);

  Kind kind = Kind::kStart;
  std::uint64_t count = 0;
  ByteSpan body;

  // kData if the bytes are not a part of a savepoint of such rows. Otherwise `body` has the size
  // that `count` needs.
  static Result<SavepointPart> read(ByteSpan bytes, const RowForm& form);

  static Kind kind_of(ByteSpan bytes) { return Kind{load_le<std::uint64_t>(bytes.data())}; }

  bool is_full() const { return word(0) == 1; }
  std::uint16_t pass() const { return static_cast<std::uint16_t>(word(1)); }
  std::uint64_t candidates() const { return word(3); }
  std::uint64_t id(std::uint64_t i) const { return word(i); }
  EntryPolicy::Candidate candidate(std::uint64_t i) const;

 private:
  std::uint64_t word(std::uint64_t i) const {
    return load_le<std::uint64_t>(body.data() + i * sizeof(std::uint64_t));
  }
};

Bytes start_part(bool is_full, std::uint16_t pass, const RowStore& rows, std::uint64_t candidates);
Bytes removed_part(std::span<const std::uint64_t> ids);
Bytes candidates_part(std::span<const EntryPolicy::Candidate> candidates);
// An empty part of rows, with room for `rows_max`.
Bytes rows_part(const RowStore& rows, std::uint64_t rows_max);
// Appends a row to a part of rows, which must have room for it.
void add_row(const RowStore& rows, std::uint64_t id, std::uint32_t number, Bytes& part);
std::uint64_t count_of(const Bytes& part);

// A sparse table's savepoint in progress: returns the rows as they were when it began, while
// updates go on. A row that an update is about to change is copied before that; all others are
// copied later, part by part.
class TableSavepoint {
 public:
  // Begins a savepoint, and drops what is left of the previous one. A savepoint of a table that
  // evicts rows is full: it copies all rows at once, from the least recently pushed one on.
  void begin(RowStore& rows, const EntryPolicy& entry, std::uint16_t pass, bool is_full);
  // Called before the rows of these ids change; ids without a number have no row.
  void before_update(RowStore& rows, std::span<const std::uint64_t> ids,
                     std::span<const std::uint32_t> numbers);
  void before_remove(RowStore& rows, std::span<const std::uint64_t> ids);
  // Called before all rows change.
  void before_change(RowStore& rows);
  // The next part, of about `bytes_max` or 8 MiB; empty if the rows that were checked contain
  // nothing for the savepoint. std::nullopt once all parts were taken.
  std::optional<Bytes> take(RowStore& rows, std::uint64_t bytes_max);

  bool is_whole(const RowStore& rows) const {
    return parts_.empty() && rows.savepoints().pending() == 0;
  }
  std::uint64_t rows_left(const RowStore& rows) const {
    return staged_rows_ + rows.savepoints().pending();
  }
  std::uint64_t bytes() const;  // memory in use

 private:
  void stage_removed(std::span<const std::uint64_t> ids);
  void stage_candidates(const EntryPolicy& entry);
  void stage_by_recency(const RowStore& rows);
  void add_found(std::uint64_t id, std::uint32_t number) {
    ids_.push_back(id);
    numbers_.push_back(number);
  }
  // Finds pending rows among about `entries` of the index, from the cursor on.
  void find_pending(RowStore& rows, std::uint64_t entries);
  // Copies the rows that were found, behind the other parts.
  void stage_found(const RowStore& rows);
  void stage(const RowStore& rows, std::uint64_t id, std::uint32_t number);

  std::deque<Bytes> parts_;         // not taken yet
  std::uint64_t staged_rows_ = 0;   // in parts_
  std::uint64_t cursor_ = 0;        // position in the index
  std::vector<std::uint64_t> ids_;  // rows found, and not copied yet
  std::vector<std::uint32_t> numbers_;
};

}  // namespace paddle::table
