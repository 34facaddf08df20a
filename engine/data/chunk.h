// Part of a data file that is read at once and parsed by any thread: whole lines, or whole records
// of arrays.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace paddle::data {

// Place between two chunks of a data file.
struct ChunkPlace {
  std::uint64_t file = 0;      // index in share.files
  std::uint64_t offset = 0;    // in the text: as decompressed, or as printed by pipe_command
  std::uint64_t line = 0;      // number of lines before it
  std::uint64_t position = 0;  // bytes of the file itself that have been read here

  bool operator==(const ChunkPlace&) const = default;
};

// Type of the numbers in a numpy array.
struct NumberType {
  enum class Kind : std::uint8_t { kBool, kUnsigned, kSigned, kFloat };
  Kind kind = Kind::kFloat;
  std::uint8_t bytes = 4;
  bool is_big_endian = false;

  bool operator==(const NumberType&) const = default;
};

// The numbers of a slot in some records, one record after the other.
struct SlotNumbers {
  NumberType type;
  std::uint64_t each = 1;           // numbers in every record, if `ends` is empty
  std::vector<std::uint64_t> ends;  // by record, where its numbers end
  Bytes bytes;

  // The numbers of `record` are those from begin_of() to end_of(), counted from the first in
  // `bytes`.
  std::uint64_t begin_of(std::uint64_t record) const {
    if (ends.empty()) return record * each;
    return record == 0 ? 0 : ends[record - 1];
  }
  std::uint64_t end_of(std::uint64_t record) const {
    return ends.empty() ? (record + 1) * each : ends[record];
  }
};

struct Chunk {
  ChunkPlace begin, end;
  Bytes text;                // lines with their ends; the file's last one may have none
  bool is_too_long = false;  // the text is the beginning of a line above kLineBytesMax

  // Used instead of `text` for arrays: how many records there are, and the numbers of each slot.
  std::uint64_t records = 0;
  std::vector<SlotNumbers> slots;
};

// The chunks of a file. Where they begin and end depends only on the file.
class ChunkSource {
 public:
  virtual ~ChunkSource() = default;
  // Moves on to the beginning of a later chunk.
  virtual Status go_to(const ChunkPlace& place) = 0;
  // Replaces `chunk` and reuses its memory; false at the end of the file. kData: the file is wrong
  // or cannot be read; the message names it. kInterrupted: the reader was stopped.
  virtual Result<bool> next(Chunk& chunk) = 0;
};

}  // namespace paddle::data
