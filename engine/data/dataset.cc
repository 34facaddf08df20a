#include "engine/data/dataset.h"

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <mutex>
#include <thread>

#include "engine/data/pass_reader.h"

namespace paddle::data {
namespace {

constexpr std::size_t kQueuedBatchesMax = 16;

class ThreadedStream final : public BatchStream {
 public:
  ThreadedStream(const DatasetOptions& options, const Dictionary& dictionary, std::uint32_t pass,
                 std::uint64_t skip, std::span<std::byte> index)
      : options_(options),
        slots_(config::data_slots(options.data)),
        reader_(options_, dictionary, pass, skip, index),
        batch_(empty_batch(slots_, options.batch_size)),
        given_(records_before(options, pass, skip)),
        share_(skip == 0 ? std::optional(0.0) : std::nullopt),
        bytes_(options.data.command.empty() ? bytes_of(options.share.files) : 0),
        maker_([this] { make(); }) {}

  ~ThreadedStream() override {
    {
      const std::scoped_lock lock(mutex_);
      abandoned_ = true;
    }
    changed_.notify_all();
    reader_.stop();
    maker_.join();
  }

  Result<std::optional<nn::Batch>> next() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !queue_.empty() || ended_; });
    if (queue_.empty()) {
      if (!outcome_) return outcome_.error();
      share_ = 1;
      return std::optional<nn::Batch>();
    }
    std::optional<nn::Batch> batch(std::move(queue_.front()));
    queue_.pop_front();
    given_ += batch->size;
    lock.unlock();
    estimate_share();
    changed_.notify_all();
    return batch;
  }

  std::uint64_t bad_records() const override { return reader_.bad_records(); }
  std::uint64_t records_parsed() const override { return reader_.records_parsed(); }
  std::optional<double> share_given() const override { return share_; }

 private:
  static std::uint64_t bytes_of(const std::vector<std::string>& files) {
    std::uint64_t bytes = 0;
    std::error_code missing;  // reported when the file is read
    for (const std::string& file : files) {
      const auto size = std::filesystem::file_size(file, missing);
      if (!missing) bytes += size;
    }
    return bytes;
  }

  // The estimate falls if the first records are longer than later ones; share_ keeps its largest
  // value, so that it never falls.
  void estimate_share() {
    const bool is_all = reader_.has_read_all();
    const auto bytes = static_cast<double>(reader_.file_bytes());
    const auto records = static_cast<double>(reader_.records_read());
    if (records == 0 || (bytes_ == 0 && !is_all)) return share_.reset();
    const double read = is_all ? 1 : std::min(1.0, bytes / static_cast<double>(bytes_));
    const double share = std::min(1.0, read * static_cast<double>(given_) / records);
    share_ = std::max(share, share_.value_or(0));
  }

  void make() {
    Status outcome = make_all();
    const std::scoped_lock lock(mutex_);
    outcome_ = std::move(outcome);
    ended_ = true;
    changed_.notify_all();
  }

  Status make_all() {
    PADDLE_TRY_STATUS(reader_.read([this](const RecordView& record) {
      return options_.observe ? Status() : add_record(record);
    }));
    return batch_.size > 0 ? put_batch() : Status();
  }

  Status add_record(const RecordView& record) {
    PADDLE_TRY_STATUS(append(slots_, record, batch_));
    return batch_.size == options_.batch_size ? put_batch() : Status();
  }

  Status put_batch() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return queue_.size() < kQueuedBatchesMax || abandoned_; });
    if (abandoned_) return Error{Errc::kInterrupted, "the reader of the batches has stopped"};
    queue_.push_back(std::exchange(batch_, empty_batch(slots_, options_.batch_size)));
    lock.unlock();
    changed_.notify_all();
    return {};
  }

  const DatasetOptions options_;
  const std::vector<config::SlotConfig> slots_;
  PassReader reader_;
  nn::Batch batch_;              // used only by the maker thread
  std::uint64_t given_;          // records of the pass up to the last batch of next()
  std::optional<double> share_;  // result of share_given()
  const std::uint64_t bytes_;    // size of all files; 0: objects, of unknown size
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<nn::Batch> queue_;
  Status outcome_;
  bool ended_ = false;
  bool abandoned_ = false;
  std::thread maker_;  // last, because it uses all of the above
};

}  // namespace

std::uint64_t records_before(const DatasetOptions& options, std::uint32_t pass,
                             std::uint64_t batch) {
  const auto& origin = options.origin;
  if (!origin || origin->pass != pass || batch < origin->batches) return batch * options.batch_size;
  return origin->records + (batch - origin->batches) * options.batch_size;
}

std::unique_ptr<BatchStream> open_pass(const DatasetOptions& options, const Dictionary& dictionary,
                                       std::uint32_t pass, std::uint64_t skip,
                                       std::span<std::byte> index) {
  return std::make_unique<ThreadedStream>(options, dictionary, pass, skip, index);
}

}  // namespace paddle::data
