#include "engine/inference/predict.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "engine/inference/records.h"

namespace paddle::inference {
namespace {

// Batches that threads take in turn, and whose lines they write in the same order. A thread holds
// one batch at a time, so memory is bounded by their number.
class OrderedWork {
 public:
  OrderedWork(data::BatchStream& stream, const std::function<Status(std::string_view)>& write)
      : stream_(stream), write_(write) {}

  struct Taken {
    std::uint64_t number = 0;
    nn::Batch batch;
  };

  // Nothing at the end, and after an error.
  std::optional<Taken> take() {
    const std::scoped_lock lock(reading_);
    if (is_over_) return {};
    auto batch = stream_.next();
    if (batch && *batch) return Taken{taken_++, std::move(**batch)};
    is_over_ = true;
    if (!batch) fail(taken_++, std::move(batch).error());
    return {};
  }

  // Waits for the turn of the batch.
  void write(std::uint64_t number, std::string_view lines) {
    std::unique_lock lock(writing_);
    turned_.wait(lock, [&] { return written_ == number; });
    if (outcome_) end(write_(lines));
    next_turn();
  }

  // The lines before stay; the first error is the one that counts.
  void fail(std::uint64_t number, Error error) {
    std::unique_lock lock(writing_);
    turned_.wait(lock, [&] { return written_ == number; });
    if (outcome_) end(std::move(error));
    next_turn();
  }

  const Status& outcome() const { return outcome_; }

 private:
  void end(Status outcome) {
    if (outcome) return;
    outcome_ = std::move(outcome);
    is_over_ = true;
  }
  void next_turn() {
    ++written_;
    turned_.notify_all();
  }

  data::BatchStream& stream_;
  const std::function<Status(std::string_view)>& write_;
  std::mutex reading_;
  std::uint64_t taken_ = 0;
  std::atomic<bool> is_over_ = false;
  std::mutex writing_;
  std::condition_variable turned_;
  std::uint64_t written_ = 0;
  Status outcome_;
};

void work(OrderedWork& all, const Predictor& predictor, const Parameters& parameters,
          DistinctIds& distinct, PredictResult& result) {
  Predictor::Scratch scratch;
  fmt::memory_buffer lines;
  while (auto taken = all.take()) {
    lines.clear();
    auto rows = predictor.predict(taken->batch, parameters, scratch, lines, &distinct);
    if (!rows) {
      all.fail(taken->number, std::move(rows).error());
      continue;
    }
    result.records += taken->batch.size;
    all.write(taken->number, {lines.data(), lines.size()});
  }
}

}  // namespace

Result<PredictResult> predict_records(const snapshot::SnapshotReader& snapshot,
                                      const ModelDescription& description,
                                      const PredictOptions& options,
                                      const std::function<Status(std::string_view)>& write) {
  PADDLE_TRY(data::DatasetOptions data, records_of(description.job, options.folder, options.glob));
  // In the order in which they are written.
  data.data.files_at_once = 1;
  data.data.global_shuffle = false;
  PADDLE_TRY(const Predictor predictor,
             Predictor::build(description.job, options.layer, options.format));
  data.rules = predictor.rules();
  PADDLE_TRY(const Parameters parameters, Parameters::load(snapshot, predictor.parameters()));
  const auto stream = data::open_pass(data, description.dictionary, 0);
  OrderedWork all(*stream, write);
  DistinctIds distinct(parameters);
  std::vector<PredictResult> results(std::max(options.threads, 1U));
  std::vector<std::thread> threads;
  for (PredictResult& result : std::span(results).subspan(1))
    threads.emplace_back([&] { work(all, predictor, parameters, distinct, result); });
  work(all, predictor, parameters, distinct, results.front());
  for (std::thread& thread : threads) thread.join();
  if (!all.outcome()) return all.outcome().error();
  PredictResult sum;
  for (const PredictResult& result : results) sum.records += result.records;
  sum.unseen_note = distinct.note();
  sum.bad_records = stream->bad_records();
  return sum;
}

}  // namespace paddle::inference
