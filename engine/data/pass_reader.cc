#include "engine/data/pass_reader.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <condition_variable>
#include <deque>
#include <numeric>
#include <thread>

#include <fmt/format.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/text.h"
#include "engine/data/chunk_reader.h"
#include "engine/data/dataset.h"
#include "engine/data/fields.h"
#include "engine/data/format.h"
#include "engine/data/npz_reader.h"
#include "engine/data/preparation.h"
#include "engine/data/record_block.h"
#include "engine/data/record_rules.h"
#include "engine/data/split.h"

namespace paddle::data {
namespace {

// Parser from a chunk of lines, or of arrays, to a block of records.
class ChunkParser {
 public:
  // The options and the dictionary must outlive the parser.
  ChunkParser(const DatasetOptions& options, const Dictionary& dictionary, std::uint32_t pass);

  // Replaces `block` with the records that this trainer takes. The block's outcome is the error of
  // the first bad record, "data/train.txt-00001:17: ...". With data.skip_bad_records, bad records
  // are left out and counted instead.
  void parse(const Chunk& chunk, RecordBlock& block);

 private:
  Result<bool> takes(std::uint64_t file, std::uint64_t number, std::string_view line);
  Error at(const Chunk& chunk, std::uint64_t number, Error error) const;
  std::string hint(std::uint64_t number, std::string_view line, const std::string& of_field) const;
  // Prepares the records from `first` on. kData: one of them lacks a number or breaks a rule; these
  // records are then removed.
  Status finish_records(std::size_t first, RecordBlock& block);
  Status bad_record(const Chunk& chunk, std::uint64_t number, std::string_view line,
                    const RecordBlock::Extent& begin, Error error, RecordBlock& block) const;
  Status parse_line(const Chunk& chunk, std::string_view line, RecordBlock& block);
  Status parse_lines(const Chunk& chunk, RecordBlock& block);
  Status parse_numbers(const Chunk& chunk, RecordBlock& block);

  const DatasetOptions& options_;
  const bool has_lines_;
  const RecordRules rules_;
  Preparation preparation_;
  std::unique_ptr<Format> format_;       // for lines
  std::vector<ClassNames> class_names_;  // by slot, for arrays
  std::optional<Split> split_;
  std::uint64_t trainers_;
  std::uint64_t stream_;
};

ChunkParser::ChunkParser(const DatasetOptions& options, const Dictionary& dictionary,
                         std::uint32_t pass)
    : options_(options),
      has_lines_(options.data.format != "npz"),
      rules_(options.data, options.rules),
      preparation_(options.data, options.observe != nullptr),
      format_(has_lines_ ? make_format(options.data, dictionary) : nullptr),
      split_(Split::of(options)),
      trainers_(options.share.records_split ? options.num_trainers : 1),
      stream_(hash_combine(hash_combine(options.seed, stable_hash("global shuffle")), pass)) {
  for (const config::DataSlotConfig& slot : options.data.slots)
    class_names_.emplace_back(slot.labels);
  if (!format_) return;
  // If several layers or evaluators read the label, one with at most two classes decides.
  std::optional<std::uint64_t> classes;
  for (const nn::SlotRule& rule : options.rules) {
    const bool is_of_two = rule.below == 1 || rule.below == 2;
    if (!rule.is_label || rule.slot_name != "label" || classes == 2) continue;
    classes = is_of_two ? 2 : rule.below;
  }
  if (classes) format_->set_classes(*classes);
}

void ChunkParser::parse(const Chunk& chunk, RecordBlock& block) {
  block.clear();
  block.chunk_begin = chunk.begin;
  block.chunk_end = chunk.end;
  block.outcome = has_lines_ ? parse_lines(chunk, block) : parse_numbers(chunk, block);
}

// Whether this trainer takes a line or record. If all trainers read the same files, this depends on
// the numbers of the file and of the line in it. Split records go to the trainers in turn. A global
// shuffle hashes (seed, pass, file, line), so that each pass gives every line to exactly one
// trainer, but not always to the same one. Lines of other trainers are not parsed, nor are those
// that the stream does not take because they are held out. kData: as for Split::takes().
Result<bool> ChunkParser::takes(std::uint64_t file, std::uint64_t number, std::string_view line) {
  if (trainers_ > 1) {
    const std::uint64_t place = options_.data.global_shuffle
                                    ? hash_combine(hash_combine(stream_, file), number)
                                    : file + number;
    if (place % trainers_ != options_.trainer_id) return false;
  }
  return split_ ? split_->takes(file, number, line) : true;
}

// Adds the file and the line or record to an error. Messages count from 1.
Error ChunkParser::at(const Chunk& chunk, std::uint64_t number, Error error) const {
  return std::move(error).with(fmt::format("{}:{}{}", options_.share.files[chunk.begin.file],
                                           has_lines_ ? "" : " record ", number + 1));
}

// Names the likeliest mistake first, because with a wrong column `skip` would leave out all
// records. `line` is the bad record; "" for arrays.
std::string ChunkParser::hint(std::uint64_t number, std::string_view line,
                              const std::string& of_field) const {
  std::string hint;
  // A header begins with a name.
  const std::size_t first = std::min(line.find_first_not_of(" \"\t#"), line.size());
  const auto is_letter = [](unsigned char c) {
    return std::isalpha(c) != 0 || c == '_' || c >= 0x80;
  };
  if (number == 0 && first < line.size() && is_letter(static_cast<unsigned char>(line[first]))) {
    hint = "is line 1 a header? remove it";
    hint += options_.data.format == "csv" ? ", or set [data] header = true; " : "; ";
  }
  if (!of_field.empty()) hint += of_field + "; ";
  return hint + (hint.empty() ? "" : "or ") +
         "[data] on_bad_record = \"skip\" leaves such records out and counts them";
}

Status ChunkParser::finish_records(std::size_t first, RecordBlock& block) {
  if (Status prepared = preparation_.prepare(first, block); !prepared) {
    block.records.resize(first);
    return prepared;
  }
  if (rules_.empty()) return {};
  for (const RecordBlock::Extent& record : std::span(block.records).subspan(first)) {
    if (Status good = rules_.check(block.view(record)); !good) {
      block.records.resize(first);
      return good;
    }
  }
  return {};
}

Status ChunkParser::bad_record(const Chunk& chunk, std::uint64_t number, std::string_view line,
                               const RecordBlock::Extent& begin, Error error,
                               RecordBlock& block) const {
  block.drop_since(begin);
  error = at(chunk, number, std::move(error));
  if (!options_.data.skip_bad_records) {
    error.hint = hint(number, line, error.hint);
    return error;
  }
  if (block.bad_records++ == 0) block.first_bad_record = std::move(error.message);
  return {};
}

void note_zero(ZeroLabel label, std::uint64_t line, ZeroLines& lines) {
  if (label == ZeroLabel::kZero && lines.zero == 0) lines.zero = line;
  if (label == ZeroLabel::kMinusOne && lines.minus_one == 0) lines.minus_one = line;
}

Status ChunkParser::parse_line(const Chunk& chunk, std::string_view line, RecordBlock& block) {
  if (!chunk.is_too_long) return format_->parse(line, block);
  return Error{Errc::kData, fmt::format("a line has over {} bytes", kLineBytesMax)};
}

Status ChunkParser::parse_lines(const Chunk& chunk, RecordBlock& block) {
  Lines lines(as_text(chunk.text), chunk.begin.line);
  bool is_before_header = chunk.begin.line == 0 && format_->has_header();
  while (const auto line = lines.next()) {
    const std::uint64_t number = lines.number();
    if (is_before_header) {
      if (format_->is_blank_line(*line)) continue;
      // A wrong header is not a bad record to leave out: every line after it would be misread.
      auto good = format_->check_header(*line);
      if (!good) return at(chunk, number, std::move(good).error());
      is_before_header = false;
      continue;
    }
    const Result<bool> taken = takes(chunk.begin.file, number, *line);
    if (taken && !*taken) continue;
    const RecordBlock::Extent begin = block.end();
    const std::size_t first = block.records.size();
    Status parsed = taken ? parse_line(chunk, *line, block) : Status(taken.error());
    const ZeroLabel zero = std::exchange(block.zero_label, ZeroLabel::kNone);
    if (parsed) parsed = finish_records(first, block);
    if (parsed) {
      note_zero(zero, number + 1, block.zero_lines);
      continue;
    }
    PADDLE_TRY_STATUS(bad_record(chunk, number, *line, begin, std::move(parsed).error(), block));
  }
  // So many blank lines that the header is not in the first chunk.
  if (is_before_header) {
    auto good = format_->check_header("");
    if (!good) return at(chunk, lines.number(), std::move(good).error());
  }
  return {};
}

Status ChunkParser::parse_numbers(const Chunk& chunk, RecordBlock& block) {
  for (std::uint64_t record = 0; record < chunk.records; ++record) {
    const std::uint64_t number = chunk.begin.line + record;
    PADDLE_TRY(const bool taken, takes(chunk.begin.file, number, ""));
    if (!taken) continue;
    const RecordBlock::Extent begin = block.end();
    const std::size_t first = block.records.size();
    Status parsed = append_numbers(options_.data, class_names_, chunk, record, block);
    if (parsed) parsed = finish_records(first, block);
    if (parsed) continue;
    PADDLE_TRY_STATUS(bad_record(chunk, number, "", begin, std::move(parsed).error(), block));
  }
  return {};
}

constexpr std::size_t kBlocksAheadMin = 2;  // for each sequence

}  // namespace

// Parallel reader of a trainer's records in one pass; their order does not depend on the threads.
//
// The files are distributed among data.files_at_once sequences. A sequence reads its files one
// after the other, a chunk at a time, and the chunks of the sequences alternate. Any thread may
// read and parse the next chunk of any sequence; a parsed chunk waits for its turn.
class BlockReader {
 public:
  // The options and the dictionary must outlive the reader. With `start`, which is in the middle of
  // the pass, it reads the chunks with is_read, and then the chunks that follow.
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
    std::deque<ChunkPlace> places;  // where the next chunks begin; it goes on after the last
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
  const std::size_t blocks_ahead_;  // for each sequence
  UniqueFd stop_fd_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Sequence> sequences_;
  std::vector<RecordBlock> spare_;  // blocks whose memory is free for reuse
  std::deque<std::size_t> turns_;   // sequences whose blocks come before that of turn_
  std::size_t turn_ = 0;            // the sequence whose block is next
  bool is_abandoned_ = false;
  std::vector<std::thread> threads_;  // last, because they use all of the above
};

BlockReader::BlockReader(const DatasetOptions& options, const Dictionary& dictionary,
                         std::uint32_t pass, const PassStart* start)
    : options_(options),
      dictionary_(dictionary),
      blocks_ahead_(std::max<std::size_t>(
          kBlocksAheadMin, 2 * options.data.threads / std::max(options.data.files_at_once, 1U))),
      stop_fd_(::eventfd(0, EFD_CLOEXEC)) {
  deal_files(pass);
  if (start != nullptr) go_to(*start);
  for (std::uint32_t i = 0; i < std::max(options.data.threads, 1U); ++i) {
    threads_.emplace_back([this, pass] { work(pass); });
  }
}

BlockReader::~BlockReader() {
  stop();
  for (std::thread& thread : threads_) thread.join();
}

void BlockReader::stop() {
  {
    const std::scoped_lock lock(mutex_);
    is_abandoned_ = true;
  }
  changed_.notify_all();
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(stop_fd_.get(), &one, sizeof(one));
}

// A global shuffle gives each pass and trainer another order of the files.
void BlockReader::deal_files(std::uint32_t pass) {
  std::vector<std::uint32_t> order(options_.share.files.size());
  std::iota(order.begin(), order.end(), 0U);
  if (options_.data.global_shuffle) {
    Rng rng(hash_combine(hash_combine(hash_combine(options_.seed, stable_hash("file order")), pass),
                         options_.trainer_id));
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
  }
  sequences_.resize(std::max(options_.data.files_at_once, 1U));
  for (std::size_t i = 0; i < order.size(); ++i) {
    sequences_[i % sequences_.size()].files.push_back(order[i]);
  }
  for (Sequence& sequence : sequences_) sequence.is_over = sequence.files.empty();
}

void BlockReader::go_to(const PassStart& start) {
  std::vector<std::size_t> sequence_of(options_.share.files.size());
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    for (const std::uint32_t file : sequences_[i].files) sequence_of[file] = i;
  }
  std::vector<std::optional<ChunkPlace>> ends(sequences_.size());
  for (const auto& [chunk, is_read] : start.chunks) {
    const std::size_t index = sequence_of[chunk.begin.file];
    if (is_read) {
      sequences_[index].places.push_back(chunk.begin);
      turns_.push_back(index);
    }
    ends[index] = chunk.end;
    turn_ = (index + 1) % sequences_.size();
  }
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    if (ends[i]) {
      sequences_[i].places.push_back(*ends[i]);
    } else if (!start.are_all) {
      sequences_[i].is_over = true;
    }
  }
}

// Picks the readable sequence with the fewest blocks ahead, and of several the next one in turn.
std::optional<std::size_t> BlockReader::sequence_to_read() const {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    const std::size_t index = (turn_ + i) % sequences_.size();
    const Sequence& sequence = sequences_[index];
    if (sequence.is_over || sequence.is_reading || sequence.blocks.size() >= blocks_ahead_)
      continue;
    if (!best || sequence.blocks.size() < sequences_[*best].blocks.size()) best = index;
  }
  return best;
}

bool BlockReader::is_all_read() const {
  return std::ranges::all_of(sequences_, [](const Sequence& sequence) { return sequence.is_over; });
}

std::unique_ptr<ChunkSource> BlockReader::open(std::uint32_t file) const {
  const std::string& path = options_.share.files[file];
  SourceOptions options{.pipe_command = options_.data.pipe_command,
                        .command = options_.data.command,
                        .folder = options_.folder,
                        .pipe_timeout = options_.data.pipe_timeout,
                        .stop_fd = stop_fd_.get()};
  if (options_.data.format == "npz")
    return std::make_unique<NpzReader>(path, file, options_.data, std::move(options));
  return std::make_unique<ChunkReader>(path, file, std::move(options));
}

// Called only by the thread that has set sequence.is_reading.
Result<bool> BlockReader::read(Sequence& sequence, Chunk& chunk) const {
  for (; sequence.file < sequence.files.size(); ++sequence.file) {
    const bool is_placed = !sequence.places.empty();
    if (is_placed && sequence.places.front().file != sequence.files[sequence.file]) {
      sequence.reader.reset();
      continue;
    }
    if (!sequence.reader) {
      const std::uint32_t file = sequence.files[sequence.file];
      sequence.reader = open(file);
    }
    if (is_placed) {
      PADDLE_TRY_STATUS(sequence.reader->go_to(sequence.places.front()));
      sequence.places.pop_front();
    }
    PADDLE_TRY(const bool found, sequence.reader->next(chunk));
    if (found) return true;
    sequence.reader.reset();
  }
  return false;
}

void BlockReader::work(std::uint32_t pass) {
  ChunkParser parser(options_, dictionary_, pass);
  Chunk chunk;
  RecordBlock block;
  std::unique_lock lock(mutex_);
  for (;;) {
    std::optional<std::size_t> index;
    changed_.wait(lock, [&] {
      index = sequence_to_read();
      return index || is_abandoned_ || is_all_read();
    });
    if (is_abandoned_ || !index) return;
    Sequence& sequence = sequences_[*index];
    sequence.is_reading = true;
    lock.unlock();
    Result<bool> found = read(sequence, chunk);
    lock.lock();
    sequence.is_reading = false;
    sequence.is_over = !found || !*found;
    changed_.notify_all();
    if (found && !*found) continue;

    const std::uint64_t number = sequence.first + sequence.blocks.size();
    sequence.blocks.emplace_back();
    sequence.is_parsed.push_back(false);
    if (!spare_.empty()) {
      block = std::move(spare_.back());
      spare_.pop_back();
    }
    lock.unlock();
    if (found) {
      parser.parse(chunk, block);
      if (options_.observe) options_.observe(block);
    } else {
      block.clear();
      block.outcome = std::move(found).error();
    }
    lock.lock();
    std::swap(sequence.blocks[number - sequence.first], block);
    sequence.is_parsed[number - sequence.first] = true;
    changed_.notify_all();
  }
}

bool BlockReader::next(RecordBlock& block) {
  std::unique_lock lock(mutex_);
  if (!turns_.empty()) {
    Sequence& sequence = sequences_[turns_.front()];
    turns_.pop_front();
    return take_front(lock, sequence, block);
  }
  for (std::size_t passed = 0; passed < sequences_.size(); ++passed) {
    const bool taken = take_front(lock, sequences_[turn_], block);
    turn_ = (turn_ + 1) % sequences_.size();
    if (taken) return true;
  }
  return false;
}

// Waits for the next block of a sequence; false if the sequence is over.
bool BlockReader::take_front(std::unique_lock<std::mutex>& lock, Sequence& sequence,
                             RecordBlock& block) {
  changed_.wait(lock, [&] {
    return is_abandoned_ ||
           (sequence.blocks.empty() ? sequence.is_over : sequence.is_parsed.front());
  });
  if (is_abandoned_ || sequence.blocks.empty()) return false;
  std::swap(block, sequence.blocks.front());
  spare_.push_back(std::move(sequence.blocks.front()));
  sequence.blocks.pop_front();
  sequence.is_parsed.pop_front();
  ++sequence.first;
  changed_.notify_all();
  return true;
}

std::optional<PassStart> find_start(const DatasetOptions& options, std::uint64_t skip,
                                    const PassIndex& index, Shuffler& shuffler) {
  const std::vector<IndexedChunk> indexed = index.chunks();
  if (skip == 0 || indexed.empty()) return {};
  PassStart start;
  // The window fills up before the first record leaves it.
  const std::uint64_t leaving = skip;
  const std::uint64_t window = options.shuffle_records > 1 ? options.shuffle_records : 0;
  start.seen = std::min(leaving + window, indexed.back().end_record);
  start.dropped = leaving - (start.seen - std::min(start.seen, window));
  const auto next = std::ranges::lower_bound(indexed, start.seen, {}, &IndexedChunk::first_record);
  if (next == indexed.begin()) return {};
  const auto before = std::span(indexed).first(static_cast<std::size_t>(next - indexed.begin()));
  start.next_chunk = index.first() + before.size();
  start.are_all = index.first() == 0;
  // Each sequence that is not over has one of the last files_at_once chunks.
  if (!start.are_all && before.size() < options.data.files_at_once) return {};

  Shuffler moved = shuffler;
  start.held = moved.go_to(start.seen);
  if (!start.held.empty() && start.held.front() < indexed.front().first_record) return {};
  auto held = start.held.begin();
  for (const IndexedChunk& chunk : before) {
    const auto end = std::lower_bound(held, start.held.end(), chunk.end_record);
    start.chunks.push_back({chunk, end != held || chunk.end_record > start.seen});
    held = end;
  }
  shuffler = std::move(moved);
  return start;
}

namespace {

constexpr std::uint64_t kBadRecordsShownMax = 10;  // in a pass

bool is_same(const IndexedChunk& chunk, const RecordBlock& block) {
  return block.outcome && block.chunk_begin == chunk.begin &&
         block.chunk_end.offset == chunk.end.offset && block.chunk_end.line == chunk.end.line &&
         block.records.size() == chunk.end_record - chunk.first_record;
}

// The cache, if this stream holds it from here on; null if there is none or another stream holds
// it.
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

// The next block, in `memory` or in the cache; null at the end. The shuffler has already seen its
// first `seen` records.
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

// Called when next() returns no more blocks. After stop() they do not cover the whole pass, so the
// cache is not complete.
void PassReader::finish_cache() {
  const std::scoped_lock lock(mutex_);
  if (fills_cache_ && !is_stopped_) cache_->finish();
}

// Restores the records that the shuffler held. Returns the last chunk in `block`; the shuffler has
// seen its first `seen` records only. False if a chunk differs from the index.
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
  log_warning("the data files have changed since {} began; it is parsed again from the beginning",
              pass_words(pass_));
  index_.clear();
  zero_lines_.clear();
  dropped_ = skip_;
  chunk_ = record_ = records_read_ = bad_records_ = file_bytes_ = 0;
  blocks_ = new_blocks();
}

// kData: a file has the labels -1 and 0, which are one class for a reader of two classes. Another
// file may have the labels 0 and 1, because each file may write two classes in its own way.
Status PassReader::check_zero_labels(const RecordBlock& block) {
  const auto [zero, minus_one] = block.zero_lines;
  if (zero == 0 && minus_one == 0) return {};
  ZeroLines& lines = zero_lines_[block.chunk_begin.file];
  if (lines.zero == 0) lines.zero = zero;
  if (lines.minus_one == 0) lines.minus_one = minus_one;
  if (lines.zero == 0 || lines.minus_one == 0) return {};
  const bool is_zero_first = lines.zero < lines.minus_one;
  return Error{
      Errc::kData,
      fmt::format("{}:{}: the label is {} here and {} in line {}, but both would be class 0",
                  options_.share.files[block.chunk_begin.file],
                  std::max(lines.zero, lines.minus_one), is_zero_first ? "-1" : "0",
                  is_zero_first ? "0" : "-1", std::min(lines.zero, lines.minus_one)),
      "of two classes write one as -1 or as 0 everywhere: sed 's/^-1/0/' OLD >NEW; three classes "
      "need [data] labels = [\"-1\", \"0\", \"1\"]"};
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
  records_read_ = end;  // before the bytes, so that no thread sees bytes without their records
  file_bytes_ += block.file_bytes();
  if (!block.outcome) return;
  index_.add(chunk_, {block.chunk_begin, block.chunk_end, record_, end, bad_records_, file_bytes_});
  ++chunk_;
  record_ = end;
}

}  // namespace paddle::data
