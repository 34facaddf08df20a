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
  std::uint64_t file = 0;      // its number in share.files
  std::uint64_t offset = 0;    // in the lines: the decompressed bytes, or those of the pipe_command
  std::uint64_t line = 0;      // number of lines before it
  std::uint64_t position = 0;  // bytes of the file itself that were read by then

  bool operator==(const ChunkPlace&) const = default;
};

// A type of numbers in an array of numpy's.
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
  std::uint64_t each = 1;           // numbers of every record, where `ends` is empty
  std::vector<std::uint64_t> ends;  // by record: where its numbers end
  Bytes bytes;

  // Numbers of `record`, counted from the first one in `bytes`.
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
  bool is_too_long = false;  // the text begins a single line above kLineBytesMax

  // Instead of text: a number of records, with the numbers of each slot.
  std::uint64_t records = 0;
  std::vector<SlotNumbers> slots;
};

// The chunks of a file. Their cuts depend on the file alone.
class ChunkSource {
 public:
  virtual ~ChunkSource() = default;
  // Moves on to the beginning of a later chunk.
  virtual Status go_to(const ChunkPlace& place) = 0;
  // Replaces `chunk` and reuses its memory; false at the end of the file. kData names the file;
  // kInterrupted: the reader was stopped.
  virtual Result<bool> next(Chunk& chunk) = 0;
};

}  // namespace paddle::data
