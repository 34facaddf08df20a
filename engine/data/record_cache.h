// The parsed records of a trainer, kept in memory for its later passes ([data] cache). They are in
// the order of the files, and are shuffled later, on the way to a batch: a pass has the same
// batches with the cache and without it.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "engine/data/record_block.h"

namespace paddle::data {

class RecordCache {
 public:
  explicit RecordCache(std::uint64_t bytes_max) : bytes_max_(bytes_max) {}

  // One stream at a time holds the cache. False: another stream holds it.
  bool hold() { return !is_held_.exchange(true); }
  void release() { is_held_ = false; }

  // REQUIRES, for the functions below: the caller holds the cache.
  bool is_whole() const { return is_whole_; }
  const std::vector<RecordBlock>& blocks() const { return blocks_; }
  // Removes the blocks of a stream that ended early.
  void begin();
  // kResource: all blocks together are over the limit.
  Status add(const RecordBlock& block);
  void finish() { is_whole_ = true; }

 private:
  const std::uint64_t bytes_max_;
  std::atomic<bool> is_held_ = false;
  bool is_whole_ = false;
  std::uint64_t bytes_ = 0;
  std::uint64_t records_ = 0;
  std::vector<RecordBlock> blocks_;
};

}  // namespace paddle::data
