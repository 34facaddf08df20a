#include "engine/data/block_reader.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/rng.h"
#include "engine/data/chunk_parser.h"
#include "engine/data/npz/npz_reader.h"

namespace paddle::data {
namespace {

constexpr std::size_t kBlocksAheadMin = 2;  // of each sequence

}  // namespace

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

// Picks the readable sequence with the fewest blocks ahead, the next one in turn if several have.
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

// Waits for the next block of a sequence; false when that is over.
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

}  // namespace paddle::data
