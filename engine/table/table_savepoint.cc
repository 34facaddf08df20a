#include "engine/table/table_savepoint.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "engine/table/lookup.h"

namespace paddle::table {
namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr std::size_t kStartBytes = 4 * kWord;
constexpr std::size_t kCandidateBytes = kWord + sizeof(std::uint32_t);

Bytes part_of(SavepointPart::Kind kind, std::uint64_t count, std::size_t bytes_max) {
  Bytes part;
  part.reserve(SavepointPart::kHeaderBytes + bytes_max);
  part.resize(SavepointPart::kHeaderBytes);
  store_le(part.data(), static_cast<std::uint64_t>(kind));
  store_le(part.data() + kWord, count);
  return part;
}

void append(Bytes& part, std::uint64_t word) {
  append_bytes(part, std::span<const std::uint64_t>(&word, 1));
}

Error malformed(std::string_view why) {
  return {Errc::kData, fmt::format("a part of a table's savepoint {}", why),
          "remove the damaged savepoint, so that the job continues from the previous one"};
}

constexpr std::size_t kStagedBytes = 1U << 20U;  // rows copied into one part
// Restoring removed ids goes through the whole table for each part, so these parts are large.
constexpr std::size_t kStateBytes = 8U << 20U;
constexpr std::size_t kCandidatesMax = kStateBytes / 12;
constexpr std::uint64_t kVisitedMax = 64U << 10U;  // entries of the index for one part
constexpr std::size_t kRun = 128;                  // rows loaded into the cache at once

bool takes_row(const Bytes& part, const RowStore& rows) {
  return SavepointPart::kind_of(part) == SavepointPart::Kind::kRows &&
         part.capacity() - part.size() >= rows.layout().form().bytes();
}

// Calls add(id, number) for rows, after loading the memory of many of them at once.
template <class Add>
void for_rows(const RowStore& rows, std::span<const std::uint64_t> ids,
              std::span<const std::uint32_t> numbers, const Add& add) {
  for (std::size_t begin = 0; begin < ids.size(); begin += kRun) {
    const std::size_t end = std::min(begin + kRun, ids.size());
    rows.load(numbers.subspan(begin, end - begin));
    for (std::size_t i = begin; i < end; ++i) add(ids[i], numbers[i]);
  }
}

}  // namespace

Result<SavepointPart> SavepointPart::read(ByteSpan bytes, const RowForm& form) {
  if (bytes.size() < kHeaderBytes) return malformed("ends within its header");
  SavepointPart part;
  part.kind = kind_of(bytes);
  part.count = load_le<std::uint64_t>(bytes.data() + kWord);
  part.body = bytes.subspan(kHeaderBytes);
  std::size_t each = 0;
  switch (part.kind) {
    case Kind::kStart:
      if (part.body.size() != kStartBytes) return malformed("has a start of another size");
      if (part.word(0) > 1 || part.word(1) > std::numeric_limits<std::uint16_t>::max() ||
          part.count > RowStore::kRowsMax || part.candidates() > RowStore::kRowsMax) {
        return malformed("has an invalid start");
      }
      if (part.word(2) != form.floats()) {
        return malformed(
            fmt::format("has rows of {} floats, but this job has {}", part.word(2), form.floats()));
      }
      return part;
    case Kind::kRemoved:
      each = kWord;
      break;
    case Kind::kCandidates:
      each = kCandidateBytes;
      break;
    case Kind::kRows:
      each = form.bytes();
      break;
    default:
      return malformed("has an unknown kind");
  }
  if (part.body.size() % each != 0 || part.body.size() / each != part.count) {
    return malformed(
        fmt::format("has {} bytes for {} entries of {}", part.body.size(), part.count, each));
  }
  return part;
}

EntryPolicy::Candidate SavepointPart::candidate(std::uint64_t i) const {
  const auto bits = load_le<std::uint32_t>(body.data() + count * kWord + i * sizeof(std::uint32_t));
  return {word(i), static_cast<std::uint16_t>(bits), static_cast<std::uint16_t>(bits >> 16U)};
}

Bytes start_part(bool is_full, std::uint16_t pass, const RowStore& rows, std::uint64_t candidates) {
  Bytes part = part_of(SavepointPart::Kind::kStart, rows.rows(), kStartBytes);
  append(part, is_full ? 1 : 0);
  append(part, pass);
  append(part, rows.layout().floats);
  append(part, candidates);
  return part;
}

Bytes removed_part(std::span<const std::uint64_t> ids) {
  Bytes part = part_of(SavepointPart::Kind::kRemoved, ids.size(), ids.size_bytes());
  append_bytes(part, ids);
  return part;
}

Bytes candidates_part(std::span<const EntryPolicy::Candidate> candidates) {
  Bytes part = part_of(SavepointPart::Kind::kCandidates, candidates.size(),
                       candidates.size() * kCandidateBytes);
  for (const EntryPolicy::Candidate& candidate : candidates) append(part, candidate.id);
  for (const EntryPolicy::Candidate& candidate : candidates) {
    const std::uint32_t bits = candidate.sightings | static_cast<std::uint32_t>(candidate.seen)
                                                         << 16U;
    append_bytes(part, std::span<const std::uint32_t>(&bits, 1));
  }
  return part;
}

Bytes rows_part(const RowStore& rows, std::uint64_t rows_max) {
  return part_of(SavepointPart::Kind::kRows, 0, rows_max * rows.layout().form().bytes());
}

void add_row(const RowStore& rows, std::uint64_t id, std::uint32_t number, Bytes& part) {
  const RowLayout& layout = rows.layout();
  std::uint64_t marks = layout.counts_updates ? rows.update_count(number) : 0;
  if (layout.expires) marks |= static_cast<std::uint64_t>(rows.seen(number)) << 32U;
  std::memcpy(layout.form().add(id, marks, part).data(), rows.value(number),
              layout.floats * sizeof(float));
  store_le(part.data() + kWord, count_of(part) + 1);
}

std::uint64_t count_of(const Bytes& part) {
  return load_le<std::uint64_t>(part.data() + kWord);
}

void TableSavepoint::begin(RowStore& rows, const EntryPolicy& entry, std::uint16_t pass,
                           bool is_full) {
  const bool evicts = rows.layout().evicts;
  is_full |= evicts;
  parts_.clear();
  staged_rows_ = 0;
  cursor_ = 0;
  parts_.push_back(start_part(is_full, pass, rows, entry.candidates()));
  if (evicts) {
    stage_by_recency(rows);
  } else {
    rows.savepoints().begin(is_full, rows.rows());
    if (!is_full) stage_removed(rows.savepoints().removed());
  }
  stage_candidates(entry);
}

void TableSavepoint::stage_removed(std::span<const std::uint64_t> ids) {
  constexpr std::size_t kIdsMax = kStateBytes / sizeof(std::uint64_t);
  for (std::size_t begin = 0; begin < ids.size(); begin += kIdsMax) {
    parts_.push_back(removed_part(ids.subspan(begin, std::min(kIdsMax, ids.size() - begin))));
  }
}

void TableSavepoint::stage_candidates(const EntryPolicy& entry) {
  std::vector<EntryPolicy::Candidate> some;
  std::uint64_t from = 0;
  do {
    some.clear();
    from = entry.visit_from(from, kCandidatesMax, some);
    if (!some.empty()) parts_.push_back(candidates_part(some));
  } while (from != 0);
}

void TableSavepoint::stage_by_recency(const RowStore& rows) {
  const RecencyList& recency = rows.recency();
  std::uint32_t number = recency.oldest();
  for (std::uint64_t i = 0; i < rows.rows(); ++i) {
    stage(rows, recency.id_of(number), number);
    number = recency.newer_than(number);
  }
}

void TableSavepoint::before_update(RowStore& rows, std::span<const std::uint64_t> ids,
                                   std::span<const std::uint32_t> numbers) {
  std::array<std::uint16_t, LookupBlock::kIds> pending;
  PADDLE_CHECK(ids.size() <= pending.size());
  std::size_t count = 0;
  RowSavepoints& savepoints = rows.savepoints();
  for (const std::uint32_t number : numbers) {
    if (number != RowIndex::kNone) savepoints.load(number);
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (numbers[i] == RowIndex::kNone) continue;
    // Branchless: whether a row is pending is unpredictable.
    pending[count] = static_cast<std::uint16_t>(i);
    count += static_cast<std::size_t>(savepoints.on_update(numbers[i]));
  }
  if (count == 0) return;
  savepoints.take_pending(count);
  for (const std::uint16_t at : std::span(pending).first(count)) add_found(ids[at], numbers[at]);
  stage_found(rows);
}

void TableSavepoint::before_remove(RowStore& rows, std::span<const std::uint64_t> ids) {
  if (rows.savepoints().pending() == 0) return;
  for (const std::uint64_t id : ids) {
    const std::uint32_t number = rows.index().find(id);
    if (rows.savepoints().on_update(number)) add_found(id, number);
  }
  rows.savepoints().take_pending(ids_.size());
  stage_found(rows);
}

void TableSavepoint::before_change(RowStore& rows) {
  while (rows.savepoints().pending() > 0) {
    find_pending(rows, kVisitedMax);
    stage_found(rows);
  }
  rows.savepoints().change_all(rows.rows());
}

void TableSavepoint::find_pending(RowStore& rows, std::uint64_t entries) {
  RowSavepoints& savepoints = rows.savepoints();
  cursor_ = rows.index().visit_from(cursor_, entries, [&](std::uint64_t position, auto number) {
    if (!savepoints.is_pending(number)) return;
    savepoints.on_copy(number);
    add_found(RowIndex::id_of(position), number);
  });
}

void TableSavepoint::stage_found(const RowStore& rows) {
  for_rows(rows, ids_, numbers_, [&](auto id, auto number) { stage(rows, id, number); });
  ids_.clear();
  numbers_.clear();
}

void TableSavepoint::stage(const RowStore& rows, std::uint64_t id, std::uint32_t number) {
  if (parts_.empty() || !takes_row(parts_.back(), rows)) {
    parts_.push_back(
        rows_part(rows, std::max<std::size_t>(1, kStagedBytes / rows.layout().form().bytes())));
  }
  add_row(rows, id, number, parts_.back());
  ++staged_rows_;
}

std::optional<Bytes> TableSavepoint::take(RowStore& rows, std::uint64_t bytes_max) {
  if (is_whole(rows)) return std::nullopt;
  if (!parts_.empty()) {
    Bytes part = std::move(parts_.front());
    parts_.pop_front();
    if (SavepointPart::kind_of(part) == SavepointPart::Kind::kRows) staged_rows_ -= count_of(part);
    return part;
  }
  const std::uint64_t rows_max =
      std::clamp<std::uint64_t>(bytes_max / rows.layout().form().bytes(), 1, kVisitedMax);
  std::uint64_t visited = 0;
  do {
    const std::uint64_t entries = std::min(rows_max - ids_.size(), kVisitedMax - visited);
    find_pending(rows, entries);
    visited += entries;
  } while (ids_.size() < rows_max && visited < kVisitedMax && rows.savepoints().pending() > 0);
  if (ids_.empty()) return Bytes();
  // Pending rows are found by whole buckets, so there may be more than wanted, and wide rows are
  // many bytes.
  const std::uint64_t count = std::min<std::uint64_t>(ids_.size(), rows_max);
  Bytes part = rows_part(rows, count);
  for_rows(rows, ids_, numbers_, [&](auto id, auto number) {
    if (count_of(part) == count) return stage(rows, id, number);
    add_row(rows, id, number, part);
  });
  ids_.clear();
  numbers_.clear();
  return part;
}

std::uint64_t TableSavepoint::bytes() const {
  std::uint64_t bytes =
      ids_.capacity() * sizeof(std::uint64_t) + numbers_.capacity() * sizeof(std::uint32_t);
  for (const Bytes& part : parts_) bytes += part.capacity();
  return bytes;
}

}  // namespace paddle::table
