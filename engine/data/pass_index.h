// Index of the chunks of a pass, in the order in which they went to the shuffler. It is in memory
// of the caller, which may outlive the process, and is valid whenever the process is killed.
//
// The memory is a ring: it holds the newest chunks only, however long the pass is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/data/chunk.h"
#include "engine/data/dataset.h"

namespace paddle::data {

struct IndexedChunk {
  ChunkPlace begin, end;
  std::uint64_t first_record = 0, end_record = 0;  // numbers of this trainer's records in the pass
  std::uint64_t bad_records = 0;                   // in the pass up to the end of this chunk
  std::uint64_t file_bytes = 0;                    // bytes of files up to there

  bool operator==(const IndexedChunk&) const = default;
};

// Hash of all that the chunks and their records depend on: pass, options, the files' sizes and
// times of change.
std::uint64_t pass_key(const DatasetOptions& options, std::uint32_t pass);

class PassIndex {
 public:
  // Continues the index in `memory` if it has this key and is not damaged; otherwise begins an
  // empty one. If the memory is too small for a few chunks, the index stays empty. REQUIRES: the
  // memory is aligned to 8 bytes and outlives the index.
  PassIndex(std::span<std::byte> memory, std::uint64_t key);

  // Adds a chunk, unless the index already has one with this number. Numbers count from 0, without
  // gaps.
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
