// Difference of a table from the last full snapshot: a byte for each row, and the ids of removed
// rows. A row that a snapshot has exported counts as part of it, also while the snapshot is still
// being written.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/memory/region.h"

namespace paddle::table {

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
  // The row takes another number.
  void renumber(std::uint32_t from, std::uint32_t to) { at(to) = at(from); }

  // A full snapshot begins; it has exported a row.
  void begin_base() { removed_.clear(); }
  void on_base(std::uint32_t number) { at(number) = 0; }

  bool is_changed(std::uint32_t number) const { return at(number) != 0; }
  // Ids of rows that the last full snapshot has and the table has not, each once.
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

}  // namespace paddle::table
