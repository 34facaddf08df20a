#include "engine/data/block_reader.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "engine/data/chunk_parser.h"

namespace paddle::data {
namespace {

constexpr std::size_t kBlocksAheadMin = 2;  // of each lane

}  // namespace

BlockReader::BlockReader(const DatasetOptions& options, const Dictionary& dictionary,
                         std::uint32_t pass)
    : options_(options),
      dictionary_(dictionary),
      filter_(options, pass),
      blocks_ahead_(std::max<std::size_t>(
          kBlocksAheadMin, 2 * options.data.threads / std::max(options.data.files_at_once, 1U))),
      stop_fd_(::eventfd(0, EFD_CLOEXEC)) {
  deal_files(pass);
  for (std::uint32_t i = 0; i < std::max(options.data.threads, 1U); ++i) {
    threads_.emplace_back([this] { work(); });
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
  [[maybe_unused]] const ssize_t told = ::write(stop_fd_.get(), &one, sizeof(one));
}

// Under global shuffle the files come in another order in each pass and trainer.
void BlockReader::deal_files(std::uint32_t pass) {
  std::vector<std::uint32_t> order(options_.share.files.size());
  std::iota(order.begin(), order.end(), 0U);
  if (options_.data.global_shuffle) {
    Rng rng(hash_combine(hash_combine(hash_combine(options_.seed, stable_hash("file order")), pass),
                         options_.trainer_id));
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
  }
  lanes_.resize(std::max(options_.data.files_at_once, 1U));
  for (std::size_t i = 0; i < order.size(); ++i) {
    lanes_[i % lanes_.size()].files.push_back(order[i]);
  }
  for (Lane& lane : lanes_) lane.is_over = lane.files.empty();
}

// Of the lanes that may be read, the one that is needed first.
std::optional<std::size_t> BlockReader::lane_to_read() const {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    const std::size_t index = (turn_ + i) % lanes_.size();
    const Lane& lane = lanes_[index];
    if (lane.is_over || lane.is_reading || lane.blocks.size() >= blocks_ahead_) continue;
    if (!best || lane.blocks.size() < lanes_[*best].blocks.size()) best = index;
  }
  return best;
}

bool BlockReader::is_all_read() const {
  return std::ranges::all_of(lanes_, [](const Lane& lane) { return lane.is_over; });
}

// Only the thread that set lane.is_reading is here.
Result<bool> BlockReader::read(Lane& lane, Chunk& chunk) const {
  for (; lane.file < lane.files.size(); ++lane.file) {
    if (!lane.reader) {
      const std::uint32_t file = lane.files[lane.file];
      lane.reader =
          std::make_unique<ChunkReader>(options_.share.files[file], file,
                                        SourceOptions{.pipe_command = options_.data.pipe_command,
                                                      .folder = options_.folder,
                                                      .pipe_timeout = options_.data.pipe_timeout,
                                                      .stop_fd = stop_fd_.get()});
    }
    PADDLE_TRY(const bool found, lane.reader->next(chunk));
    if (found) return true;
    lane.reader.reset();
  }
  return false;
}

void BlockReader::work() {
  ChunkParser parser(options_, dictionary_, filter_);
  Chunk chunk;
  RecordBlock block;
  std::unique_lock lock(mutex_);
  for (;;) {
    std::optional<std::size_t> index;
    changed_.wait(lock, [&] {
      index = lane_to_read();
      return index || is_abandoned_ || is_all_read();
    });
    if (is_abandoned_ || !index) return;
    Lane& lane = lanes_[*index];
    lane.is_reading = true;
    lock.unlock();
    Result<bool> found = read(lane, chunk);
    lock.lock();
    lane.is_reading = false;
    lane.is_over = !found || !*found;
    changed_.notify_all();
    if (found && !*found) continue;

    const std::uint64_t number = lane.first + lane.blocks.size();
    lane.blocks.emplace_back();
    lane.is_parsed.push_back(false);
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
    std::swap(lane.blocks[number - lane.first], block);
    lane.is_parsed[number - lane.first] = true;
    changed_.notify_all();
  }
}

bool BlockReader::next(RecordBlock& block) {
  std::unique_lock lock(mutex_);
  for (std::size_t passed = 0; passed < lanes_.size(); ++passed) {
    Lane& lane = lanes_[turn_];
    changed_.wait(lock, [&] {
      return is_abandoned_ || (lane.blocks.empty() ? lane.is_over : lane.is_parsed.front());
    });
    if (is_abandoned_) return false;
    turn_ = (turn_ + 1) % lanes_.size();
    if (lane.blocks.empty()) continue;
    std::swap(block, lane.blocks.front());
    spare_.push_back(std::move(lane.blocks.front()));
    lane.blocks.pop_front();
    lane.is_parsed.pop_front();
    ++lane.first;
    changed_.notify_all();
    return true;
  }
  return false;
}

}  // namespace paddle::data
