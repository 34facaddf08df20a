#include "engine/table/cut_part.h"

#include <fmt/format.h>

namespace paddle::table {
namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr std::size_t kStartBytes = 4 * kWord;
constexpr std::size_t kCandidateBytes = kWord + sizeof(std::uint32_t);

Bytes part_of(CutPart::Kind kind, std::uint64_t count, std::size_t bytes_max) {
  Bytes part;
  part.reserve(CutPart::kHeaderBytes + bytes_max);
  part.resize(CutPart::kHeaderBytes);
  store_le(part.data(), static_cast<std::uint64_t>(kind));
  store_le(part.data() + kWord, count);
  return part;
}

void append(Bytes& part, std::uint64_t word) {
  append_bytes(part, std::span<const std::uint64_t>(&word, 1));
}

Error malformed(std::string_view why) {
  return {Errc::kData, fmt::format("a part of a table's cut {}", why),
          "remove the damaged cut, so that the job goes on from the one before"};
}

}  // namespace

Result<CutPart> CutPart::read(ByteSpan bytes, std::uint64_t floats) {
  if (bytes.size() < kHeaderBytes) return malformed("ends within its header");
  CutPart part;
  part.kind = kind_of(bytes);
  part.count = load_le<std::uint64_t>(bytes.data() + kWord);
  part.body = bytes.subspan(kHeaderBytes);
  std::size_t each = 0;
  switch (part.kind) {
    case Kind::kStart:
      if (part.body.size() != kStartBytes) return malformed("has a start of another size");
      if (part.word(0) > 1 || part.word(1) > std::numeric_limits<std::uint16_t>::max() ||
          part.count > RowStore::kRowsMax || part.candidates() > RowStore::kRowsMax) {
        return malformed("has a start that no table writes");
      }
      if (part.word(2) != floats) {
        return malformed(fmt::format("has rows of {} floats, this job {}", part.word(2), floats));
      }
      return part;
    case Kind::kRemoved:
      each = kWord;
      break;
    case Kind::kCandidates:
      each = kCandidateBytes;
      break;
    case Kind::kRows:
      each = kMarksBytes + floats * sizeof(float);
      break;
    default:
      return malformed("is of an unknown kind");
  }
  if (part.body.size() % each != 0 || part.body.size() / each != part.count) {
    return malformed(
        fmt::format("has {} bytes for {} entries of {}", part.body.size(), part.count, each));
  }
  return part;
}

EntryPolicy::Candidate CutPart::candidate(std::uint64_t i) const {
  const auto bits = load_le<std::uint32_t>(body.data() + count * kWord + i * sizeof(std::uint32_t));
  return {word(i), static_cast<std::uint16_t>(bits), static_cast<std::uint16_t>(bits >> 16U)};
}

Bytes start_part(bool is_full, std::uint16_t pass, const RowStore& rows, std::uint64_t candidates) {
  Bytes part = part_of(CutPart::Kind::kStart, rows.rows(), kStartBytes);
  append(part, is_full ? 1 : 0);
  append(part, pass);
  append(part, rows.layout().floats);
  append(part, candidates);
  return part;
}

Bytes removed_part(std::span<const std::uint64_t> ids) {
  Bytes part = part_of(CutPart::Kind::kRemoved, ids.size(), ids.size_bytes());
  append_bytes(part, ids);
  return part;
}

Bytes candidates_part(std::span<const EntryPolicy::Candidate> candidates) {
  Bytes part =
      part_of(CutPart::Kind::kCandidates, candidates.size(), candidates.size() * kCandidateBytes);
  for (const EntryPolicy::Candidate& candidate : candidates) append(part, candidate.id);
  for (const EntryPolicy::Candidate& candidate : candidates) {
    const std::uint32_t bits = candidate.sightings | static_cast<std::uint32_t>(candidate.seen)
                                                         << 16U;
    append_bytes(part, std::span<const std::uint32_t>(&bits, 1));
  }
  return part;
}

Bytes rows_part(const RowStore& rows, std::uint64_t rows_max) {
  return part_of(CutPart::Kind::kRows, 0, rows_max * row_bytes(rows));
}

void add_row(const RowStore& rows, std::uint64_t id, std::uint32_t number, Bytes& part) {
  const RowLayout& layout = rows.layout();
  std::uint64_t marks = layout.counts_updates ? rows.update_count(number) : 0;
  if (layout.expires) marks |= static_cast<std::uint64_t>(rows.seen(number)) << 32U;
  const std::size_t begin = part.size();
  part.resize(begin + row_bytes(rows));
  store_le(part.data() + begin, id);
  store_le(part.data() + begin + kWord, marks);
  std::memcpy(part.data() + begin + CutPart::kMarksBytes, rows.value(number),
              layout.floats * sizeof(float));
  store_le(part.data() + kWord, count_of(part) + 1);
}

std::uint64_t count_of(const Bytes& part) {
  return load_le<std::uint64_t>(part.data() + kWord);
}

}  // namespace paddle::table
