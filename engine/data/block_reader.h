// A trainer's records of one pass, parsed by several threads and handed out in one order.
//
// The files are dealt to data.files_at_once lanes. A lane reads its files one after the other, a
// chunk at a time; the lanes' chunks alternate. Any thread may read and parse the next chunk of any
// lane, and a parsed chunk waits for its turn, so the order is that of one thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "engine/data/chunk_reader.h"
#include "engine/data/dataset.h"
#include "engine/data/line_filter.h"
#include "engine/data/record_block.h"

namespace paddle::data {

class BlockReader {
 public:
  // Both must outlive the reader.
  BlockReader(const DatasetOptions& options, const Dictionary& dictionary, std::uint32_t pass);
  ~BlockReader();
  BlockReader(const BlockReader&) = delete;
  BlockReader& operator=(const BlockReader&) = delete;

  // Replaces `block`, keeping its memory for another; false at the end of the pass. A block whose
  // outcome is an error has the records before it.
  bool next(RecordBlock& block);
  // From any thread: next() returns false from now on.
  void stop();

 private:
  struct Lane {
    std::vector<std::uint32_t> files;  // indexes into share.files
    std::size_t file = 0;              // into `files`
    std::unique_ptr<ChunkReader> reader;
    bool is_reading = false;
    bool is_over = false;
    std::uint64_t first = 0;         // the number of blocks.front() among the lane's chunks
    std::deque<RecordBlock> blocks;  // the next ones, parsed or not yet
    std::deque<bool> is_parsed;
  };
  void deal_files(std::uint32_t pass);
  void work();
  std::optional<std::size_t> lane_to_read() const;
  bool is_all_read() const;
  Result<bool> read(Lane& lane, Chunk& chunk) const;

  const DatasetOptions& options_;
  const Dictionary& dictionary_;
  const LineFilter filter_;
  const std::size_t blocks_ahead_;  // of each lane
  UniqueFd stop_fd_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Lane> lanes_;
  std::vector<RecordBlock> spare_;  // memory for others
  std::size_t turn_ = 0;            // the lane whose block is next
  bool is_abandoned_ = false;
  std::vector<std::thread> threads_;  // last: they use all of the above
};

}  // namespace paddle::data
