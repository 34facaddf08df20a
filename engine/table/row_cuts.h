// States of a table's rows towards its cuts, two bits a row, and the ids that were removed. A cut
// in progress copies a row at its leisure, or just before an update changes it.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/memory/prefetch.h"
#include "engine/memory/region.h"

namespace paddle::table {

class RowCuts {
 public:
  RowCuts() : states_(MemoryRegion::kHugePageBytes) {}
  Status reserve(std::uint64_t rows) { return states_.reserve(words(rows) * sizeof(Word)); }
  std::uint64_t bytes(std::uint64_t rows) const {
    return states_.resident(words(rows) * sizeof(Word)) +
           (removed_.capacity() + cut_removed_.capacity()) * sizeof(std::uint64_t);
  }

  void on_create(std::uint32_t number) { set(number, kChanged); }
  void load(std::uint32_t number) const { load_line(&at(number)); }
  // True when the row was pending: the caller copies it before it changes, and counts it in
  // take_pending().
  bool on_update(std::uint32_t number) {
    Word& word = at(number);
    const unsigned shift = shift_of(number);
    const bool was_pending = (word >> shift & kMask) == kPending;
    word = (word & ~(kMask << shift)) | kChanged << shift;
    return was_pending;
  }
  void take_pending(std::uint64_t count) { pending_ -= count; }
  // The row is not pending.
  void on_remove(std::uint32_t number, std::uint64_t id) {
    PADDLE_CHECK(!is_pending(number));
    set(number, kUnchanged);
    removed_.push_back(id);
  }
  // All rows change; none is pending.
  void change_all(std::uint64_t rows) {
    PADDLE_CHECK(pending_ == 0);
    for (std::uint64_t i = 0; i < words(rows); ++i) {
      at(static_cast<std::uint32_t>(i * kRowsPerWord)) = kLowBits & used_bits(rows, i);
    }
  }
  // The row takes another number, whose row is gone.
  void renumber(std::uint32_t from, std::uint32_t to) {
    set(to, state(from));
    set(from, kUnchanged);
  }

  // Begins a cut of all rows, or of those that have changed since the last cut began. A cut that
  // has not ended is dropped: what it had counts as changed.
  void begin(bool is_full, std::uint64_t rows) {
    pending_ = 0;
    for (std::uint64_t i = 0; i < words(rows); ++i) {
      Word& word = at(static_cast<std::uint32_t>(i * kRowsPerWord));
      const Word low = word & kLowBits;
      const Word high = word >> 1U & kLowBits;
      Word in_cut = is_open_ ? low | high : low & ~high;
      if (is_full) in_cut = kLowBits & used_bits(rows, i);
      word = in_cut << 1U;
      pending_ += static_cast<std::uint64_t>(std::popcount(in_cut));
    }
    if (!is_open_) cut_removed_.clear();
    cut_removed_.insert(cut_removed_.end(), removed_.begin(), removed_.end());
    removed_.clear();
    is_open_ = true;
  }
  // The next cut builds on this one.
  void end() {
    PADDLE_CHECK(pending_ == 0);
    is_open_ = false;
    cut_removed_ = {};
  }

  std::uint64_t pending() const { return pending_; }
  bool is_pending(std::uint32_t number) const { return state(number) == kPending; }
  // The cut has a pending row.
  void on_copy(std::uint32_t number) {
    set(number, kCopied);
    --pending_;
  }
  // Ids removed before the cut began, since the one it builds on. May name an id twice, or one that
  // has come again.
  std::span<const std::uint64_t> removed() const { return cut_removed_; }

  // A row was restored from a cut, on which the next one may build.
  void on_restore(std::uint32_t number) { set(number, kUnchanged); }
  void forget_removed() { removed_.clear(); }

 private:
  using Word = std::uint64_t;
  static constexpr Word kMask = 3;
  static constexpr Word kUnchanged = 0;
  static constexpr Word kChanged = 1;  // since the last cut began
  static constexpr Word kPending = 2;  // in the cut in progress, and not copied yet
  static constexpr Word kCopied = 3;   // in the cut in progress, and unchanged since it was copied
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
  bool is_open_ = false;                    // a cut has begun and not ended
  std::vector<std::uint64_t> removed_;      // since the last cut began
  std::vector<std::uint64_t> cut_removed_;  // of the cut in progress
};

}  // namespace paddle::table
