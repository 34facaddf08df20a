// Parallel reader of a trainer's records in one pass; their order does not depend on the threads.
//
// The files are dealt to data.files_at_once sequences. A sequence reads its files one after the
// other, a chunk at a time, and the chunks of the sequences alternate. Any thread may read and
// parse the next chunk of any sequence; a parsed chunk waits for its turn.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "engine/data/chunk_reader.h"
#include "engine/data/dataset.h"
#include "engine/data/pass_start.h"
#include "engine/data/records/record_block.h"

namespace paddle::data {

class BlockReader {
 public:
  // The options and the dictionary must outlive the reader. From a start in the middle of the pass
  // it reads the chunks of which records are held, and then those that are not done.
  BlockReader(const DatasetOptions& options, const Dictionary& dictionary, std::uint32_t pass,
              const PassStart* start);
  ~BlockReader();
  BlockReader(const BlockReader&) = delete;
  BlockReader& operator=(const BlockReader&) = delete;

  // Replaces `block` and reuses its memory; false at the end of the pass. A block whose outcome is
  // an error holds the records before the error.
  bool next(RecordBlock& block);
  // Makes next() return false from now on. Any thread may call it.
  void stop();

 private:
  struct Sequence {
    std::vector<std::uint32_t> files;  // indexes into share.files
    std::size_t file = 0;              // index into `files`
    std::unique_ptr<ChunkSource> reader;
    std::deque<ChunkPlace> places;  // where its next chunks begin; after the last one it goes on
    bool is_reading = false;
    bool is_over = false;
    std::uint64_t first = 0;         // chunk number of blocks.front() in the sequence
    std::deque<RecordBlock> blocks;  // the next chunks; is_parsed marks the finished ones
    std::deque<bool> is_parsed;
  };
  void deal_files(std::uint32_t pass);
  void go_to(const PassStart& start);
  void work(std::uint32_t pass);
  std::optional<std::size_t> sequence_to_read() const;
  bool is_all_read() const;
  std::unique_ptr<ChunkSource> open(std::uint32_t file) const;
  Result<bool> read(Sequence& sequence, Chunk& chunk) const;
  bool take_front(std::unique_lock<std::mutex>& lock, Sequence& sequence, RecordBlock& block);

  const DatasetOptions& options_;
  const Dictionary& dictionary_;
  const std::size_t blocks_ahead_;  // of each sequence
  UniqueFd stop_fd_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Sequence> sequences_;
  std::vector<RecordBlock> spare_;  // blocks whose memory is free for reuse
  std::deque<std::size_t> turns_;   // the sequences whose blocks are next, before turn_
  std::size_t turn_ = 0;            // the sequence whose block is next
  bool is_abandoned_ = false;
  std::vector<std::thread> threads_;  // last, because they use all of the above
};

}  // namespace paddle::data
