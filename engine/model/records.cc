#include "engine/model/records.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "engine/config/job_config.h"
#include "engine/data/dataset.h"
#include "engine/trainer/held_out.h"

namespace paddle::inference {
namespace {

// A pattern in job.toml stays in its workspace; a pattern on the command line may name files
// outside it.
std::string without_parents(const std::string& folder, const std::string& glob) {
  if (glob.find("..") == std::string::npos) return glob;
  return std::filesystem::absolute(std::filesystem::path(folder) / glob)
      .lexically_normal()
      .string();
}

// The files of `glob` below `folder`, or standard input for "-", in batches, as a test reads them;
// "": the job's own held-out records. kData: no file matches.
Result<data::DatasetOptions> records_of(const config::JobConfig& job, const std::string& folder,
                                        const std::string& glob) {
  if (glob != "-") {
    const bool are_objects = !job.data.command.empty();
    auto found =
        trainer::held_out_data(job, folder, are_objects ? glob : without_parents(folder, glob));
    if (found) return found;
    Error error = std::move(found).error();
    if (error.hint.empty())
      error.hint = "--data=GLOB names files, --workspace=DIR the folder that they are below";
    return error;
  }
  data::DatasetOptions options = trainer::held_out_options(job, folder);
  // Under this name, engine/data reads standard input on from its current position.
  options.share.files = {"/dev/stdin"};
  return options;
}

// Gives batches to threads in turn, and writes their lines in the same order. A thread holds one
// batch at a time, so the number of threads bounds the memory.
class OrderedWork {
 public:
  OrderedWork(data::BatchStream& stream, const std::function<Status(std::string_view)>& write)
      : stream_(stream), write_(write) {}

  struct Taken {
    std::uint64_t number = 0;
    nn::Batch batch;
  };

  // Empty at the end, and after an error.
  std::optional<Taken> take() {
    const std::scoped_lock lock(reading_);
    if (is_over_) return {};
    auto batch = stream_.next();
    if (batch && *batch) return Taken{taken_++, std::move(**batch)};
    is_over_ = true;
    if (!batch) fail(taken_++, std::move(batch).error());
    return {};
  }

  // Waits until the earlier batches are written, then writes the lines of this batch.
  void write(std::uint64_t number, std::string_view lines) {
    std::unique_lock lock(writing_);
    turn_changed_.wait(lock, [&] { return written_ == number; });
    if (outcome_) end(write_(lines));
    next_turn();
  }

  // Waits in the same way, then ends the work. Earlier lines stay; only the first error counts.
  void fail(std::uint64_t number, Error error) {
    std::unique_lock lock(writing_);
    turn_changed_.wait(lock, [&] { return written_ == number; });
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
    turn_changed_.notify_all();
  }

  data::BatchStream& stream_;
  const std::function<Status(std::string_view)>& write_;
  std::mutex reading_;
  std::uint64_t taken_ = 0;
  std::atomic<bool> is_over_ = false;
  std::mutex writing_;
  std::condition_variable turn_changed_;
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
  // The order in which the records are written.
  data.data.files_at_once = 1;
  data.data.global_shuffle = false;
  PADDLE_TRY(const Predictor predictor,
             Predictor::build(description.job, options.layer, options.format));
  data.rules = predictor.rules();
  PADDLE_TRY(const Parameters parameters, Parameters::load(snapshot, predictor.parameters()));
  const auto stream = data::open_pass(data, description.dictionary, 0);
  // Nothing is written if the first records are wrong.
  std::string header = predictor.header();
  const std::function<Status(std::string_view)> write_below =
      [&](std::string_view lines) -> Status {
    if (!header.empty()) PADDLE_TRY_STATUS(write(std::exchange(header, "")));
    return write(lines);
  };
  OrderedWork all(*stream, write_below);
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

Result<TestResult> test_snapshot(const snapshot::SnapshotReader& snapshot,
                                 const ModelDescription& description, const std::string& folder,
                                 const std::string& glob) {
  PADDLE_TRY(data::DatasetOptions data, records_of(description.job, folder, glob));
  config::JobConfig job = description.job;
  job.train.device = config::TrainDevice::kCpu;  // also for a job that was trained on a GPU
  PADDLE_TRY(trainer::Model model, trainer::Model::build(job));
  data.rules = model.rules();
  PADDLE_TRY(const Parameters parameters, Parameters::load(snapshot, model.parameters()));
  for (client::DenseParameter& one : model.dense())
    std::ranges::copy(parameters.dense(one.parameter), one.value.begin());
  TestResult result;
  DistinctIds distinct(parameters);
  const auto pull = [&](std::span<client::SparseRows> tables) -> Status {
    for (client::SparseRows& rows : tables)
      result.rows.add(parameters.read_rows(rows.parameter, rows.ids, rows.values, &distinct));
    return {};
  };
  const auto stream = data::open_pass(data, description.dictionary, 0);
  PADDLE_TRY(const trainer::Score score, trainer::score_held_out(*stream, model, pull));
  result.bad_records = stream->bad_records();
  result.ids = distinct.asked();
  result.unseen_ids = distinct.absent();
  result.unseen_note = distinct.note();
  if (score.samples == 0 && data.held_out) return trainer::empty_part(data);
  if (score.samples == 0) {
    const std::string& named = glob.empty() ? description.job.data.test : glob;
    return Error{Errc::kData,
                 fmt::format("{} has no record{}", named == "-" ? "stdin" : named,
                             result.bad_records > 0 ? " that is not bad" : ""),
                 "there is nothing to test on"};
  }
  result.reading = model.read(score);
  return result;
}

}  // namespace paddle::inference
