// Index of the chunks of a pass, in the order in which they went to the shuffler. It lies in memory
// of the caller that may outlive the process, and is whole whenever the process is killed.
//
// The memory is a ring: it holds the newest chunks only, however long the pass is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/data/dataset.h"
#include "engine/data/records/chunk.h"

namespace paddle::data {

struct IndexedChunk {
  ChunkPlace begin, end;
  std::uint64_t first_record = 0, end_record = 0;  // numbers of this trainer's records in the pass
  std::uint64_t bad_records = 0;                   // of the pass, up to the end of this chunk
  std::uint64_t file_bytes = 0;                    // likewise

  bool operator==(const IndexedChunk&) const = default;
};

// Hash of all that the chunks and their records depend on: pass, options, the files' sizes and
// times of change.
std::uint64_t pass_key(const DatasetOptions& options, std::uint32_t pass);

class PassIndex {
 public:
  // Goes on with the index in `memory` if it has this key and no damage, else begins an empty one.
  // The memory is aligned to 8 bytes and outlives the index; if it is too small for a few chunks,
  // the index stays empty.
  PassIndex(std::span<std::byte> memory, std::uint64_t key);

  // Adds a chunk, unless the index has one of that number; the numbers count from 0 without gaps.
  void add(std::uint64_t number, const IndexedChunk& chunk);
  // The newest chunks, the oldest of them first.
  std::vector<IndexedChunk> chunks() const;
  // Number of the oldest of chunks().
  std::uint64_t first() const;
  void clear();

 private:
  struct Entry {
    IndexedChunk chunk;
    std::uint64_t checksum = 0;
  };
  std::uint64_t checksum(std::uint64_t number, const IndexedChunk& chunk) const;
  std::uint64_t word(std::size_t at) const;
  void set_word(std::size_t at, std::uint64_t value);
  Entry entry(std::uint64_t number) const;
  bool is_whole() const;

  std::span<std::byte> memory_;  // key, number of chunks added so far, entries
  std::uint64_t key_;
  std::uint64_t capacity_ = 0;  // in entries
};

}  // namespace paddle::data
