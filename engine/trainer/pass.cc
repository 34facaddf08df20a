#include "engine/trainer/pass.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "base/rng.h"
#include "base/text.h"
#include "engine/math/update_kernels.h"

namespace paddle::trainer {
namespace {

// Names the first value that is not finite: "the gradient of 'fc.w0'" or "the cost"; "" when all
// are finite.
std::string first_not_finite(std::span<const wire::ParameterSpec> specs,
                             std::span<const client::DenseParameter> dense,
                             std::span<const client::SparseRows> rows, double cost, float limit) {
  const auto of = [&](std::uint32_t parameter) {
    return fmt::format("the gradient of '{}'", specs[parameter].name());
  };
  for (const client::DenseParameter& one : dense) {
    if (!optim::all_below(one.gradients(), limit)) return of(one.parameter);
  }
  for (const client::SparseRows& one : rows) {
    if (!optim::all_below(one.gradients, limit)) return of(one.parameter);
  }
  return std::isfinite(cost) ? "" : "the cost";
}

}  // namespace

Status NotFinite::leave_out(const std::string& where, std::span<const wire::ParameterSpec> specs,
                            std::span<client::DenseParameter> dense,
                            std::span<client::SparseRows> rows, Score& score) {
  const std::string what = first_not_finite(specs, dense, rows, score.cost, limit_);
  if (what.empty()) {
    in_a_row_ = 0;
    return {};
  }
  ++left_out_;
  const std::string why = fmt::format("{}: {} is not finite, or too large", where, what);
  constexpr const char* kHint =
      "lower optimizer.learning_rate, bound gradients with "
      "optimizer.clip_global_norm, or check "
      "the data of these batches";
  if (++in_a_row_ >= kNotFiniteInARowMax) {
    return Error{Errc::kFailed, fmt::format("{}, as in the {} batches before", why, in_a_row_ - 1),
                 kHint};
  }
  log_warning("{}; the batch is left out on all pservers ({} so far)", why, left_out_);
  for (client::DenseParameter& one : dense) std::ranges::fill(one.gradients(), 0.0F);
  for (client::SparseRows& one : rows) std::ranges::fill(one.gradients, 0.0F);
  score.samples = 0;
  score.cost = 0;
  std::ranges::fill(score.tally.counts, 0U);
  std::ranges::fill(score.tally.sums, 0.0);
  return {};
}

Pass::Pass(const LoopOptions& options, const data::Dictionary& dictionary, Model& model,
           client::ParameterClient& client, Report& report, HeldOutTest& test)
    : options_(options),
      dictionary_(dictionary),
      model_(model),
      client_(client),
      report_(report),
      test_(test),
      not_finite_(options.gradient_limit) {
  progress_.passes = options.train.passes;
}

Status Pass::train(std::uint32_t pass, const Start& start) {
  begin(pass, start.batch);
  report_.begin_pass(progress_);
  report_.publish(progress_, wire::ACTIVITY_TRAINING);
  restore(start);
  if (start.lacks_test) PADDLE_TRY_STATUS(test_.run_within_pass(progress_));
  std::span<std::byte> index;
  if (options_.kept != nullptr) index = options_.kept->pass_index();
  PassBatches batches(options_.train_data, dictionary_, client_,
                      {options_.uneven, pass, start.batch, index});
  const std::uint64_t seed = hash_combine(hash_combine(options_.seed, pass), options_.trainer_id);
  const std::uint32_t test_period = options_.train.test_period;
  BatchFeed feed(batches, model_, client_, {seed, start.batch, test_period});
  for (;;) {
    const TimePoint begun = std::chrono::steady_clock::now();
    PADDLE_TRY(const bool has_batch, feed.next());
    progress_.bad_records = feed.bad_records();
    if (!has_batch) {
      batches_before_ = progress_.batch;
      progress_.share_done = 1;
      return {};
    }
    PADDLE_TRY_STATUS(train_batch(feed, begun));
    progress_.share_done = share_done(feed.share_given());
    report_.publish(progress_, wire::ACTIVITY_TRAINING);
    // A stop request of this trainer also takes effect only when the servers return it, so that all
    // trainers of a round stop after the same batch.
    is_stopped_ = client_.stop_asked();
    if (is_stopped_) return {};
    const std::uint64_t batch = progress_.batch;
    if (batch % options_.train.log_period == 0) PADDLE_TRY_STATUS(report_.write_train(progress_));
    if (test_period > 0 && batch % test_period == 0)
      PADDLE_TRY_STATUS(test_.run_within_pass(progress_));
  }
}

void Pass::go_to_end(std::uint32_t pass, const Start& start) {
  progress_ = {.pass = pass, .passes = progress_.passes, .score = {}};
  restore(start);
  progress_.batch = progress_.batches_counted;
}

void Pass::begin(std::uint32_t pass, std::uint64_t batch) {
  progress_ = {.pass = pass,
               .passes = progress_.passes,
               .batch = batch,
               .batches_counted = batch,
               .score = {}};
  progress_.share_done = share_done(batch == 0 ? std::optional(0.0) : std::nullopt);
  is_stopped_ = false;
}

void Pass::restore(const Start& start) {
  if (start.counts) {
    progress_.batches_counted = start.counts->batches;
    progress_.score = start.counts->score;
  }
  if (start.first_cost) report_.restore_first_cost(*start.first_cost);
}

Status Pass::train_batch(BatchFeed& feed, TimePoint begun) {
  PADDLE_TRY_STATUS(feed.prepare());
  const TimePoint asked = std::chrono::steady_clock::now();
  PADDLE_TRY_STATUS(feed.pull());
  const TimePoint answered = std::chrono::steady_clock::now();
  if (options_.kept != nullptr) options_.kept->forget_push();
  Duration waited = {};
  PADDLE_TRY(const Score score, compute(feed, waited));
  const Duration reading = asked - begun;
  const Duration computing = std::chrono::steady_clock::now() - answered;
  report_.add_batch(score, reading + computing - waited);
  if (wants_stop()) client_.ask_to_stop();
  count(score);
  return client_.push(score.samples, score.cost, model_.dense(), model_.rows());
}

// Leaves the gradients to push in model_.dense() and model_.rows().
Result<Score> Pass::compute(BatchFeed& feed, Duration& waited) {
  PADDLE_TRY(Score score, feed.compute(waited));
  clip_gradients(options_.optimizer, model_.parameters(), model_.dense(), model_.rows());
  if (!options_.train.skips_not_finite) return score;
  const std::string where = fmt::format("trainer {}, {}, batch {}", options_.trainer_id,
                                        pass_words(progress_.pass), progress_.batch + 1);
  PADDLE_TRY_STATUS(
      not_finite_.leave_out(where, model_.parameters(), model_.dense(), model_.rows(), score));
  return score;
}

// INVARIANT: the counts and the push are kept before the push is sent.
void Pass::count(const Score& score) {
  ++progress_.batch;
  const bool is_counted = progress_.batch <= progress_.batches_counted;
  if (!is_counted) {
    progress_.score.add(score);
    progress_.batches_counted = progress_.batch;
  }
  if (options_.kept == nullptr) return;
  const PassCounts counts{progress_.score, report_.first_cost()};
  options_.kept->keep({progress_.pass, progress_.batch}, score, is_counted ? nullptr : &counts,
                      model_.rows());
}

// share_given: of the records; a pass after the first one knows its number of batches.
std::optional<double> Pass::share_done(std::optional<double> share_given) const {
  if (!batches_before_) return share_given;
  if (*batches_before_ == 0) return 1;
  return std::min(1.0,
                  static_cast<double>(progress_.batch) / static_cast<double>(*batches_before_));
}

bool Pass::is_time_over() const {
  return options_.trainer_id == 0 && options_.ends_at &&
         std::chrono::steady_clock::now() >= *options_.ends_at;
}

bool Pass::wants_stop() const {
  return (options_.stop_requested && options_.stop_requested()) || is_time_over();
}

}  // namespace paddle::trainer
