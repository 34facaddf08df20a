#include "engine/data/dataset.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <mutex>
#include <thread>

#include "base/log.h"
#include "base/rng.h"
#include "engine/data/block_reader.h"
#include "engine/data/shuffler.h"

namespace paddle::data {
namespace {

constexpr std::size_t kQueuedBatchesMax = 16;
constexpr std::uint64_t kBadRecordsShownMax = 10;  // in a pass

class ThreadedStream final : public BatchStream {
 public:
  ThreadedStream(const DatasetOptions& options, const Dictionary& dictionary, std::uint32_t pass)
      : options_(options),
        slots_(config::data_slots(options.data)),
        blocks_(options_, dictionary, pass),
        shuffler_(options.shuffle_records, stream_of(options, pass)),
        batch_(empty_batch(slots_, options.batch_size)),
        bytes_(bytes_of(options.share.files)),
        maker_([this] { make(); }) {}

  ~ThreadedStream() override {
    {
      const std::scoped_lock lock(mutex_);
      abandoned_ = true;
    }
    changed_.notify_all();
    blocks_.stop();
    maker_.join();
  }

  Result<std::optional<nn::Batch>> next() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !queue_.empty() || ended_; });
    if (queue_.empty()) {
      if (!outcome_) return outcome_.error();
      return std::optional<nn::Batch>();
    }
    std::optional<nn::Batch> batch(std::move(queue_.front()));
    queue_.pop_front();
    lock.unlock();
    changed_.notify_all();
    return batch;
  }

  std::uint64_t bad_records() const override { return bad_records_; }
  double share_read() const override {
    const auto all = static_cast<double>(bytes_);
    return bytes_ == 0 ? 0 : std::min(1.0, static_cast<double>(bytes_read_) / all);
  }

 private:
  static std::uint64_t bytes_of(const std::vector<std::string>& files) {
    std::uint64_t bytes = 0;
    std::error_code missing;  // is reported when it is read
    for (const std::string& file : files) {
      const auto size = std::filesystem::file_size(file, missing);
      if (!missing) bytes += size;
    }
    return bytes;
  }
  static std::uint64_t stream_of(const DatasetOptions& options, std::uint32_t pass) {
    return hash_combine(hash_combine(hash_combine(options.seed, stable_hash("shuffle")), pass),
                        options.trainer_id);
  }

  void make() {
    Status outcome = make_all();
    const std::scoped_lock lock(mutex_);
    outcome_ = std::move(outcome);
    ended_ = true;
    changed_.notify_all();
  }

  Status make_all() {
    const auto add = [this](const RecordView& record) { return add_record(record); };
    RecordBlock block;
    while (blocks_.next(block)) {
      count_bad(block);
      bytes_read_ += block.file_bytes;
      for (const RecordBlock::Extent& extent : block.records) {
        PADDLE_TRY_STATUS(shuffler_.put(block.view(extent), add));
      }
      PADDLE_TRY_STATUS(std::move(block.outcome));
      const std::scoped_lock lock(mutex_);
      if (abandoned_) return {};
    }
    PADDLE_TRY_STATUS(shuffler_.drain(add));
    return batch_.size > 0 ? put_batch() : Status();
  }

  void count_bad(const RecordBlock& block) {
    if (block.bad_records == 0) return;
    if (bad_blocks_++ < kBadRecordsShownMax) log_warning("left out: {}", block.first_bad_record);
    bad_records_ += block.bad_records;
  }

  Status add_record(const RecordView& record) {
    PADDLE_TRY_STATUS(append(slots_, record, batch_));
    return batch_.size == options_.batch_size ? put_batch() : Status();
  }

  Status put_batch() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return queue_.size() < kQueuedBatchesMax || abandoned_; });
    if (abandoned_) return Error{Errc::kInterrupted, "nobody reads the batches"};
    queue_.push_back(std::exchange(batch_, empty_batch(slots_, options_.batch_size)));
    lock.unlock();
    changed_.notify_all();
    return {};
  }

  const DatasetOptions options_;
  const std::vector<config::SlotConfig> slots_;
  // Used by the maker thread alone.
  BlockReader blocks_;
  Shuffler shuffler_;
  nn::Batch batch_;
  std::uint64_t bad_blocks_ = 0;

  const std::uint64_t bytes_;  // of all files
  std::atomic<std::uint64_t> bytes_read_ = 0;
  std::atomic<std::uint64_t> bad_records_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<nn::Batch> queue_;
  Status outcome_;
  bool ended_ = false;
  bool abandoned_ = false;
  std::thread maker_;  // last, because it uses all of the above
};

}  // namespace

std::unique_ptr<BatchStream> open_pass(const DatasetOptions& options, const Dictionary& dictionary,
                                       std::uint32_t pass) {
  return std::make_unique<ThreadedStream>(options, dictionary, pass);
}

}  // namespace paddle::data
