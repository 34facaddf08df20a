#include "engine/trainer/dataset.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "engine/base/rng.h"
#include "engine/trainer/record_reader.h"

namespace paddle::trainer {
namespace {

constexpr std::size_t kQueuedBatchesMax = 16;

// Seeded shuffle over a window: a record leaves when a later one takes its place.
class Shuffler {
 public:
  Shuffler(RecordReader reader, std::uint64_t window, std::uint64_t stream)
      : reader_(std::move(reader)), window_(window), rng_(stream) {}

  Result<bool> next(Record& record) {
    if (window_ <= 1) return reader_.next(record);
    while (!drained_) {
      PADDLE_TRY(const bool found, reader_.next(record));
      drained_ = !found;
      if (drained_) break;
      if (held_.size() < window_) {
        held_.push_back(record);
        continue;
      }
      std::swap(record, held_[rng_.below(held_.size())]);
      return true;
    }
    if (held_.empty()) return false;
    std::swap(held_[rng_.below(held_.size())], held_.back());
    record = std::move(held_.back());
    held_.pop_back();
    return true;
  }

 private:
  RecordReader reader_;
  std::uint64_t window_;
  Rng rng_;
  std::vector<Record> held_;
  bool drained_ = false;
};

void append_record(const config::DataConfig& data, const Record& record, nn::Batch& batch) {
  ++batch.size;
  if (data.format == "ngram") {
    for (std::size_t i = 0; i < record.size(); ++i) batch.slots[i].ids.push_back(record[i]);
    return;
  }
  nn::Slot& words = batch.slots[0];
  words.ids.insert(words.ids.end(), record.begin(), record.end() - 1);
  words.offsets.push_back(static_cast<std::uint32_t>(words.ids.size()));
  batch.slots[1].ids.push_back(record.back());
}

nn::Batch empty_batch(const config::DataConfig& data, std::size_t slots) {
  nn::Batch batch;
  batch.slots.resize(slots);
  if (data.format == "bow") batch.slots[0].offsets.assign(1, 0);
  return batch;
}

class ThreadedStream final : public BatchStream {
 public:
  ThreadedStream(const DatasetOptions& options, const Dictionary& dictionary, std::uint32_t pass)
      : options_(options),
        slots_(config::data_slots(options.data).size()),
        shuffler_(RecordReader(options_, dictionary), options.shuffle_records,
                  stream_of(options, pass)),
        parser_([this] { parse(); }) {}

  ~ThreadedStream() override {
    {
      const std::scoped_lock lock(mutex_);
      abandoned_ = true;
    }
    changed_.notify_all();
    parser_.join();
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

 private:
  static std::uint64_t stream_of(const DatasetOptions& options, std::uint32_t pass) {
    return hash_combine(hash_combine(hash_combine(options.seed, stable_hash("shuffle")), pass),
                        options.trainer_id);
  }

  void parse() {
    Status outcome = parse_all();
    const std::scoped_lock lock(mutex_);
    outcome_ = std::move(outcome);
    ended_ = true;
    changed_.notify_all();
  }

  Status parse_all() {
    Record record;
    nn::Batch batch = empty_batch(options_.data, slots_);
    for (;;) {
      PADDLE_TRY(const bool found, shuffler_.next(record));
      if (found) append_record(options_.data, record, batch);
      if (batch.size == options_.batch_size || (!found && batch.size > 0)) {
        if (!put(std::move(batch))) return {};
        batch = empty_batch(options_.data, slots_);
      }
      if (!found) return {};
    }
  }

  // False when nobody wants more.
  bool put(nn::Batch&& batch) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return queue_.size() < kQueuedBatchesMax || abandoned_; });
    if (abandoned_) return false;
    queue_.push_back(std::move(batch));
    lock.unlock();
    changed_.notify_all();
    return true;
  }

  const DatasetOptions options_;
  const std::size_t slots_;
  Shuffler shuffler_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<nn::Batch> queue_;
  Status outcome_;
  bool ended_ = false;
  bool abandoned_ = false;
  std::thread parser_;  // last: it uses all of the above
};

}  // namespace

std::unique_ptr<BatchStream> open_pass(const DatasetOptions& options, const Dictionary& dictionary,
                                       std::uint32_t pass) {
  return std::make_unique<ThreadedStream>(options, dictionary, pass);
}

}  // namespace paddle::trainer
