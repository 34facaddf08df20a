#include "engine/data/pass_reader.h"

#include "base/log.h"
#include "base/rng.h"

namespace paddle::data {
namespace {

constexpr std::uint64_t kBadRecordsShownMax = 10;  // in a pass

bool is_same(const IndexedChunk& chunk, const RecordBlock& block) {
  return block.outcome && block.chunk_begin == chunk.begin &&
         block.chunk_end.offset == chunk.end.offset && block.chunk_end.line == chunk.end.line &&
         block.records.size() == chunk.end_record - chunk.first_record;
}

// None where another stream has it.
std::shared_ptr<RecordCache> hold(const std::shared_ptr<RecordCache>& cache) {
  return cache && cache->hold() ? cache : nullptr;
}

}  // namespace

PassReader::PassReader(const DatasetOptions& options, const Dictionary& dictionary,
                       std::uint32_t pass, std::uint64_t skip, std::span<std::byte> index)
    : options_(options),
      dictionary_(dictionary),
      pass_(pass),
      skip_(records_before(options, pass, skip)),
      cache_(hold(options.cache)),
      index_(index, index.empty() ? 0 : pass_key(options, pass)),
      shuffler_(new_shuffler()),
      start_(reads_cache() ? std::nullopt : find_start(options, skip_, index_, shuffler_)),
      dropped_(start_ ? start_->dropped : skip_) {
  if (reads_cache()) return;
  if (options.warn && pass == 0 && !start_) notes_.emplace(options.data, options.rules);
  fills_cache_ = cache_ && !start_;
  if (fills_cache_) cache_->begin();
  blocks_ = new_blocks();
  if (!start_) return;
  const IndexedChunk& last = start_->chunks.back().indexed;
  chunk_ = start_->next_chunk;
  record_ = records_read_ = last.end_record;
  bad_records_ = last.bad_records;
  file_bytes_ = last.file_bytes;
}

PassReader::~PassReader() {
  if (cache_) cache_->release();
}

Shuffler PassReader::new_shuffler() const {
  const std::uint64_t seed = hash_combine(options_.seed, stable_hash("shuffle"));
  return {options_.shuffle_records, hash_combine(hash_combine(seed, pass_), options_.trainer_id)};
}

std::unique_ptr<BlockReader> PassReader::new_blocks() const {
  return std::make_unique<BlockReader>(options_, dictionary_, pass_, start_ ? &*start_ : nullptr);
}

void PassReader::stop() {
  const std::scoped_lock lock(mutex_);
  is_stopped_ = true;
  if (blocks_) blocks_->stop();
}

// The next block, in `memory` or in the cache. Its first `seen` records are not for put().
const RecordBlock* PassReader::next(RecordBlock& memory, std::size_t& seen) {
  seen = 0;
  if (reads_cache()) {
    if (chunk_ == cache_->blocks().size()) return nullptr;
    const RecordBlock& block = cache_->blocks()[chunk_];
    count(block);
    return &block;
  }
  if (start_) {
    const PassStart start = *std::exchange(start_, {});
    if (restore(start, memory, seen)) return &memory;
    begin_anew();
  }
  if (!blocks_->next(memory)) return nullptr;
  records_parsed_ += memory.records.size();
  count(memory);
  return &memory;
}

// After the last block, or what was taken for it because of stop().
void PassReader::finish_cache() {
  const std::scoped_lock lock(mutex_);
  if (fills_cache_ && !is_stopped_) cache_->finish();
}

// Gives the shuffler the records that it holds. The block is the last one then, and may have some
// that it has not seen. False if a chunk is not what the index says.
bool PassReader::restore(const PassStart& start, RecordBlock& block, std::size_t& seen) {
  auto held = start.held.begin();
  for (const PassStart::Chunk& chunk : start.chunks) {
    if (!chunk.is_read) continue;
    if (!blocks_->next(block)) return false;
    records_parsed_ += block.records.size();
    if (!is_same(chunk.indexed, block)) return false;
    const std::uint64_t first = chunk.indexed.first_record;
    for (; held != start.held.end() && *held < chunk.indexed.end_record; ++held) {
      shuffler_.restore(block.view(block.records[*held - first]));
    }
    seen = std::min<std::uint64_t>(block.records.size(), start.seen - first);
  }
  return true;
}

void PassReader::begin_anew() {
  shuffler_ = new_shuffler();
  const std::scoped_lock lock(mutex_);
  if (is_stopped_) return;
  log_warning("the data files have changed since pass {} began; it is parsed from its begin",
              pass_);
  index_.clear();
  dropped_ = skip_;
  chunk_ = record_ = records_read_ = bad_records_ = file_bytes_ = 0;
  blocks_ = new_blocks();
}

void PassReader::tell_notes() {
  if (!notes_) return;
  for (const std::string& warning : notes_->warnings()) options_.warn(warning);
  notes_.reset();
}

void PassReader::count(const RecordBlock& block) {
  if (block.bad_records > 0) {
    if (bad_blocks_++ < kBadRecordsShownMax) log_warning("left out: {}", block.first_bad_record);
    bad_records_ += block.bad_records;
  }
  if (notes_) notes_->add(block);
  if (notes_ && notes_->is_done()) tell_notes();
  const std::uint64_t end = record_ + block.records.size();
  records_read_ = end;  // before the bytes: another thread then never counts bytes without records
  file_bytes_ += block.file_bytes();
  if (!block.outcome) return;
  index_.add(chunk_, {block.chunk_begin, block.chunk_end, record_, end, bad_records_, file_bytes_});
  ++chunk_;
  record_ = end;
}

}  // namespace paddle::data
