// Records of a trainer in one pass, in the order of its shuffle, from any batch on.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/data/number_notes.h"
#include "engine/data/pass_index.h"
#include "engine/data/shuffler.h"

namespace paddle::data {

class BlockReader;

// Start of a stream in the middle of a pass: the chunks that it reads again because the shuffler
// holds some of their records, and the place from which it goes on.
struct PassStart {
  struct Chunk {
    IndexedChunk indexed;
    bool is_read = false;  // it has records that the shuffler holds or has not seen
  };
  std::vector<Chunk> chunks;  // before the place to go on from, in order; at least one
  bool are_all = false;       // no other chunk comes before these
  std::uint64_t next_chunk = 0;
  std::uint64_t seen = 0;           // number of records that the shuffler has seen
  std::vector<std::uint64_t> held;  // numbers of the records that it holds, ascending
  std::uint64_t dropped = 0;        // records that leave it before the first batch begins
};

// Moves a new shuffler to the last record that it sees before `skip` records have left it, or to
// the end of the index if that is earlier. Returns nothing and does not change the shuffler if the
// index does not contain the chunks of all records that the shuffler holds.
std::optional<PassStart> find_start(const DatasetOptions& options, std::uint64_t skip,
                                    const PassIndex& index, Shuffler& shuffler);

// One thread calls read(); any thread may call the other functions.
class PassReader {
 public:
  // As open_pass(). The options, the dictionary and the index must outlive the reader.
  PassReader(const DatasetOptions& options, const Dictionary& dictionary, std::uint32_t pass,
             std::uint64_t skip, std::span<std::byte> index);
  ~PassReader();
  PassReader(const PassReader&) = delete;
  PassReader& operator=(const PassReader&) = delete;

  // Calls take(RecordView) for each record, until it returns an error.
  template <class Take>
  Status read(Take take) {
    const auto leave = [&](const RecordView& record) {
      if (dropped_ == 0) return take(record);
      --dropped_;
      return Status();
    };
    RecordBlock memory;
    std::size_t seen = 0;
    while (const RecordBlock* const block = next(memory, seen)) {
      PADDLE_TRY_STATUS(check_zero_labels(*block));
      for (const RecordBlock::Extent& extent : std::span(block->records).subspan(seen)) {
        PADDLE_TRY_STATUS(shuffler_.put(block->view(extent), leave));
      }
      if (!block->outcome) return block->outcome;
      if (fills_cache_) PADDLE_TRY_STATUS(cache_->add(*block));
    }
    finish_cache();
    tell_notes();
    has_read_all_ = true;
    return shuffler_.drain(leave);
  }
  // Ends the pass early.
  void stop();

  std::uint64_t bad_records() const { return bad_records_; }
  std::uint64_t records_parsed() const { return records_parsed_; }
  // Number of records of the pass that the shuffler has received so far, including those before the
  // first batch, and the bytes of the files that they take.
  std::uint64_t records_read() const { return records_read_; }
  std::uint64_t file_bytes() const { return file_bytes_; }
  // Whether the shuffler has received all records of the pass.
  bool has_read_all() const { return has_read_all_; }

 private:
  Shuffler new_shuffler() const;
  std::unique_ptr<BlockReader> new_blocks() const;
  const RecordBlock* next(RecordBlock& memory, std::size_t& seen);
  void finish_cache();
  bool restore(const PassStart& start, RecordBlock& block, std::size_t& seen);
  void begin_anew();
  bool reads_cache() const { return cache_ && !fills_cache_ && cache_->is_whole(); }
  void count(const RecordBlock& block);
  Status check_zero_labels(const RecordBlock& block);
  void tell_notes();

  const DatasetOptions& options_;
  const Dictionary& dictionary_;
  const std::uint32_t pass_;
  const std::uint64_t skip_;                  // records before the first batch
  const std::shared_ptr<RecordCache> cache_;  // held by this reader; may be null
  PassIndex index_;
  Shuffler shuffler_;
  bool fills_cache_ = false;
  std::optional<PassStart> start_;  // empty once its chunks are read
  std::uint64_t dropped_;           // records that still leave the shuffler for skipped batches
  std::uint64_t chunk_ = 0;         // number of the next chunk
  std::uint64_t record_ = 0;        // number of the next record for the shuffler
  std::uint64_t bad_blocks_ = 0;
  std::unordered_map<std::uint64_t, ZeroLines> zero_lines_;  // by file
  std::optional<NumberNotes> notes_;                         // empty once the warnings are given

  std::atomic<std::uint64_t> bad_records_ = 0;
  std::atomic<std::uint64_t> records_parsed_ = 0;
  std::atomic<std::uint64_t> records_read_ = 0;
  std::atomic<bool> has_read_all_ = false;
  std::atomic<std::uint64_t> file_bytes_ = 0;
  std::mutex mutex_;  // guards blocks_, which only the reading thread changes
  bool is_stopped_ = false;
  std::unique_ptr<BlockReader> blocks_;  // null if records come from the cache
};

}  // namespace paddle::data
