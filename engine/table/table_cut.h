// A sparse table's cut in progress: hands out the rows as they were when it began, while updates go
// on. A row that an update is about to change is copied first; the others are copied by and by.
#pragma once

#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "engine/table/cut_part.h"

namespace paddle::table {

class TableCut {
 public:
  // Drops what is left of the cut before. A cut of rows that are evicted is full, and has copies of
  // all of them at once, in the order in which they were named.
  void begin(RowStore& rows, const EntryPolicy& entry, std::uint16_t pass, bool is_full);
  // Before rows change: those that have a number.
  void before_update(RowStore& rows, std::span<const std::uint64_t> ids,
                     std::span<const std::uint32_t> numbers);
  void before_remove(RowStore& rows, std::span<const std::uint64_t> ids);
  // Before all rows change.
  void before_change(RowStore& rows);
  // The next part, of about `bytes_max` or 8 MiB; empty when the rows looked at have nothing for
  // the cut. Nothing once the cut has been handed out.
  std::optional<Bytes> take(RowStore& rows, std::uint64_t bytes_max);

  bool is_whole(const RowStore& rows) const { return parts_.empty() && rows.cuts().pending() == 0; }
  std::uint64_t rows_left(const RowStore& rows) const {
    return staged_rows_ + rows.cuts().pending();
  }
  std::uint64_t bytes() const;  // of memory

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
  // Copies the rows found, behind the other parts.
  void stage_found(const RowStore& rows);
  void stage(const RowStore& rows, std::uint64_t id, std::uint32_t number);

  std::deque<Bytes> parts_;         // to be handed out
  std::uint64_t staged_rows_ = 0;   // in parts_
  std::uint64_t cursor_ = 0;        // position in the index
  std::vector<std::uint64_t> ids_;  // of rows found, not copied yet
  std::vector<std::uint32_t> numbers_;
};

}  // namespace paddle::table
