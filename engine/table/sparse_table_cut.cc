// Cuts of a sparse table, and restoring it from them.
#include <fmt/format.h>

#include "engine/table/sparse_table.h"

namespace paddle::table {

void SparseTable::track_cuts() {
  rows_.track_cuts();
}

void SparseTable::begin_cut(bool is_full) {
  PADDLE_CHECK(rows_.layout().cuts || rows_.layout().evicts);
  cut_.begin(rows_, entry_, pass_, is_full);
}

std::optional<Bytes> SparseTable::take_cut(std::uint64_t bytes_max) {
  return cut_.take(rows_, bytes_max);
}

void SparseTable::end_cut() {
  PADDLE_CHECK(!is_cutting());
  rows_.cuts().end();
}

Status SparseTable::restore_cut(ByteSpan bytes) {
  auto part = CutPart::read(bytes, rows_.layout().floats);
  if (!part) {
    return std::move(part).error().with(fmt::format("restoring table '{}'", spec_.name()));
  }
  PADDLE_CHECK(!is_cutting());
  cache_ = {};
  switch (part->kind) {
    case CutPart::Kind::kStart:
      return restore_start(*part);
    case CutPart::Kind::kRemoved:
      return restore_removed(*part);
    case CutPart::Kind::kCandidates:
      PADDLE_TRY_STATUS(reserve(part->count));
      restore_candidates(*part);
      return {};
    case CutPart::Kind::kRows:
      PADDLE_TRY_STATUS(reserve(part->count));
      restore_rows(*part);
      return {};
  }
  return {};
}

Status SparseTable::restore_start(const CutPart& part) {
  if (part.is_full() && rows() > 0) rows_.clear();
  pass_ = part.pass();
  restored_rows_ = part.count;
  // Rows come in the order of the index, whose first homes would overflow if it had to grow.
  const std::uint64_t more = part.count - std::min(part.count, rows());
  PADDLE_TRY_STATUS(reserve(more));
  rows_.index().make_room(more);
  return entry_.restart(part.candidates());
}

Status SparseTable::restore_removed(const CutPart& part) {
  std::vector<std::uint64_t> ids;
  for (std::uint64_t i = 0; i < part.count && rows() > 0; ++i) {
    if (rows_.index().find(part.id(i)) != RowIndex::kNone) ids.push_back(part.id(i));
  }
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  if (rows_.layout().cuts) cut_.before_remove(rows_, ids);
  PADDLE_TRY_STATUS(rows_.remove(ids));
  rows_.cuts().forget_removed();
  return {};
}

void SparseTable::restore_candidates(const CutPart& part) {
  for (std::uint64_t i = 0; i < part.count; ++i) entry_.put(part.candidate(i));
}

void SparseTable::restore_rows(const CutPart& part) {
  const std::size_t bytes = row_bytes(rows_);
  for (std::uint64_t begin = 0; begin < part.count; begin += LookupBlock::kIds) {
    const std::uint64_t end = std::min<std::uint64_t>(begin + LookupBlock::kIds, part.count);
    rows_.index().make_room(end - begin);
    for (std::uint64_t i = begin; i < end; ++i) {
      const auto id = load_le<std::uint64_t>(part.body.data() + i * bytes);
      rows_.index().prefetch_home(rows_.index().home(RowIndex::hash_of(id)));
    }
    for (std::uint64_t i = begin; i < end; ++i) restore_row(part.body.data() + i * bytes);
  }
}

void SparseTable::restore_row(const std::byte* from) {
  const RowLayout& layout = rows_.layout();
  const auto id = load_le<std::uint64_t>(from);
  const auto marks = load_le<std::uint64_t>(from + sizeof(id));
  const std::uint64_t hash = RowIndex::hash_of(id);
  const std::uint64_t home = rows_.index().home(hash);
  std::uint32_t number = rows_.index().find_at(home, hash);
  if (number == RowIndex::kNone) {
    number = rows_.create(home, hash, id);
    rows_.populate();
  } else if (layout.evicts) {
    rows_.recency().move_to_front(number);
  }
  std::memcpy(rows_.value(number), from + CutPart::kMarksBytes, layout.floats * sizeof(float));
  if (layout.counts_updates) rows_.update_count(number) = static_cast<std::uint32_t>(marks);
  if (layout.expires) rows_.seen(number) = static_cast<std::uint16_t>(marks >> 32U);
  if (layout.tracks) rows_.changes().on_update(number);
  if (layout.cuts) rows_.cuts().on_restore(number);
}

Status SparseTable::check_restored() const {
  if (rows() == restored_rows_) return {};
  return Error{Errc::kData,
               fmt::format("table '{}' has {} rows after it was restored, and had {} at its cut",
                           spec_.name(), rows(), restored_rows_),
               "remove the damaged cut, so that the job goes on from the one before"};
}

}  // namespace paddle::table
