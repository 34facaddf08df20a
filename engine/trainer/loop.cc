#include "engine/trainer/loop.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/log.h"
#include "base/rng.h"
#include "base/text.h"
#include "engine/math/update_kernels.h"
#include "engine/snapshot/file_system.h"
#include "engine/snapshot/retention.h"
#include "engine/trainer/batch_feed.h"
#include "engine/trainer/held_out.h"
#include "engine/trainer/model.h"

namespace paddle::trainer {
namespace {

constexpr auto kReportPeriod = std::chrono::seconds(1);
constexpr auto kBriefPeriod = std::chrono::seconds(10);  // between lines within a pass
constexpr double kDivergenceRatio = 1000;
constexpr double kCostMin = 1e-6;  // the first batch may have a cost of 0

// " dense: pushes=12 merged=36 lags=3,9", with lags as in PushCounts. Empty for parameters without
// a port, and for pushes in rounds, which are neither merged nor late.
std::string pushes_text(std::string_view kind, const client::PushCounts& counts) {
  const auto behind = std::span(counts.lags).subspan(std::min<std::size_t>(1, counts.lags.size()));
  const bool lags = std::ranges::any_of(behind, [](auto n) { return n > 0; });
  if (!lags && counts.batches <= counts.pushes) return "";
  return fmt::format(" {}: pushes={} merged={} lags={}", kind, counts.pushes,
                     counts.batches - counts.pushes, fmt::join(counts.lags, ","));
}

JsonObject pushes_fields(const std::string& kind, const client::PushCounts& counts) {
  return JsonObject()
      .add(kind + "_pushes", counts.pushes)
      .add(kind + "_merged", counts.batches - counts.pushes)
      .add(kind + "_lags", counts.lags);
}

void log_tables(std::uint32_t pass, const client::PassTotals& totals,
                std::span<const wire::ParameterSpec> parameters) {
  for (const auto& [parameter, table] : totals.tables) {
    const double rows = static_cast<double>(std::max<std::uint64_t>(1, table.rows));
    log_info(
        "Pass={} table '{}': rows={} MiB={:.1f} bytes_per_row={:.1f} beside_payload={:.1f} "
        "candidates={} expired={} shrunk={} evicted={}",
        pass, parameters[parameter].name(), table.rows,
        static_cast<double>(table.bytes) / (1 << 20), static_cast<double>(table.bytes) / rows,
        static_cast<double>(table.bytes - table.payload_bytes) / rows, table.candidates,
        table.expired, table.shrunk, table.evicted);
  }
}

// Whether an earlier run had records of the pass. Only trainer 0 knows whether a snapshot begins
// within a pass.
bool had_records_before(const LoopOptions& options, const client::ParameterClient& client,
                        std::uint32_t pass) {
  if (options.trainer_id != 0) return client.progress().samples > 0;
  return options.begins_within_pass && pass == options.start_pass;
}

// Whether an earlier process of this trainer ended during the test that followed its last batch.
bool has_lost_test(const LoopOptions& options, BatchNumber at) {
  const std::uint32_t period = options.train.test_period;
  if (options.kept == nullptr || at.batch == 0 || period == 0 || at.batch % period != 0)
    return false;
  const bool is_first_life = !options.kept->last_counts(at.pass);
  return !is_first_life && !options.kept->is_told(KeptPush::Line::kTest, at);
}

// "pass 3 of 10 (pass-00002), batch 40"
std::string place_words(std::uint32_t pass, std::uint32_t passes, std::uint64_t batch) {
  return fmt::format("{}, batch {}", pass_words(pass, passes), batch);
}

std::string shown_files(std::vector<std::string> files) {
  constexpr std::size_t kShownMax = 3;
  const std::size_t count = files.size();
  if (count > kShownMax) files.resize(kShownMax);
  if (count > kShownMax) files.push_back(fmt::format("{} more", count - kShownMax));
  if (count == 0) files.emplace_back("no file");
  return fmt::format("{}", fmt::join(files, ", "));
}

Error no_record(const LoopOptions& options, std::uint32_t pass) {
  return {
      Errc::kData,
      fmt::format("{} had no record for any trainer; trainer {} read {}", pass_words(pass),
                  options.trainer_id, shown_files(options.train_data.share.files)),
      "check whether the files of [data] train are empty, or all of their records were left out"};
}

Error no_test_record(const LoopOptions& options) {
  return {
      Errc::kData,
      fmt::format("the held-out data has no record; trainer {} read {}", options.trainer_id,
                  shown_files(options.test_data.share.files)),
      "check whether the files of [data] test are empty, or all of their records were left out; "
      "without [data] test nothing is held out"};
}

// Whether the folder or the disk of this node failed. All other errors concern the whole job.
bool is_of_node(const Error& error) {
  return error.code == Errc::kResource || error.code == Errc::kUsage || error.code == Errc::kData;
}

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

std::string pass_directory(const std::string& save_dir, std::uint32_t pass) {
  return save_dir + "/" + snapshot::pass_name(pass);
}

std::string stop_directory(const std::string& save_dir, std::uint32_t pass, std::uint64_t batch) {
  return fmt::format("{}-{:06d}", pass_directory(save_dir, pass), batch);
}

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
      "lower optimizer.learning_rate, bound gradients with optimizer.clip_global_norm, or check "
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

Status Loop::run() {
  PADDLE_TRY_STATUS(check_test_data());
  PADDLE_TRY_STATUS(client_.pull_dense(model_.dense()));
  if (options_.train.has_decisions()) recall_tests();
  PADDLE_TRY_STATUS(come_back());
  for (std::uint32_t pass = options_.start_pass; pass < options_.train.passes; ++pass) {
    PADDLE_TRY_STATUS(run_pass(pass));
    PADDLE_TRY_STATUS(end_pass(pass));
  }
  if (options_.train.passes == 0) PADDLE_TRY_STATUS(test(0));
  // The other trainers stay until trainer 0 has tested: if it fails there, all repeat the pass.
  if (!has_met_at_end_) PADDLE_TRY_STATUS(meet_others());
  if (options_.before_leave) options_.before_leave();
  return client_.leave();
}

// Reads the first held-out records, so that a job does not train a pass before a test that cannot
// be made. A pipe_command may be slow, so it runs for tests only.
Status Loop::check_test_data() {
  const data::DatasetOptions& test = options_.test_data;
  if (options_.trainer_id != 0 || test.share.files.empty()) return {};
  if (!test.data.pipe_command.empty()) return {};
  const auto stream = data::open_pass(options_.test_data, dictionary_, 0);
  PADDLE_TRY(const std::optional<nn::Batch> batch, stream->next());
  if (!batch) return no_test_record(options_);
  return {};
}

// Return of a trainer to a running job: it finishes what its earlier process began.

Status Loop::come_back() {
  if (options_.repeats_pass_end) return repeat_pass_end(options_.start_pass - 1);
  if (options_.train.has_decisions()) PADDLE_TRY_STATUS(decide_at_start());
  return repeat_push();
}

Status Loop::repeat_push() {
  const KeptPush* const kept = options_.kept;
  const auto last = kept != nullptr ? kept->push() : std::nullopt;
  // Ports that receive pushes without rounds may be several batches behind the last push. These
  // batches are computed again.
  const std::uint64_t next = options_.batches_done + 1;
  const bool is_behind = last && last->batch > next && client_.progress().is_split;
  if (last && last->pass == options_.start_pass && (last->batch == next || is_behind)) {
    log_info("pushing batch {} of {} again, to the ports that lack it", last->batch,
             pass_words(last->pass));
    PADDLE_TRY(std::vector<client::SparseRows> rows, kept->rows());
    PADDLE_TRY_STATUS(
        client_.repeat_push(last->batch, kept->samples(), kept->cost(), model_.dense(), rows));
  }
  const client::JobProgress progress = client_.progress();
  options_.batches_done = progress.batches;
  has_lost_push_ = progress.is_split;
  if (!has_lost_push_) return {};
  return Error{Errc::kUnreachable,
               fmt::format("the last push of trainer {} reached only some ports, and is lost",
                           options_.trainer_id),
               "the whole job resumes from its last snapshot"};
}

// The pservers send the totals of the last pass again. The other trainers wait at the same barrier,
// or have passed it already.
Status Loop::repeat_pass_end(std::uint32_t pass) {
  if (options_.kept != nullptr) {
    restore(pass);
    batch_ = batches_counted_;
  }
  if (options_.train.has_decisions() && options_.meetings_done > 0) {
    PADDLE_TRY_STATUS(hear_again(pass));
    return has_met_at_end_ ? Status() : end_early(pass);
  }
  const std::uint64_t after_saving = is_saved(pass) ? 1 : 0;
  has_met_at_end_ =
      options_.start_pass == options_.train.passes && options_.meetings_done > after_saving;
  if (has_met_at_end_) return {};
  if (options_.meetings_done > 0) return begin_next(pass);
  client_.repeat_end(client::PassEnd::kFinish);
  return end_pass(pass);
}

void Loop::restore(std::uint32_t pass) {
  auto last = options_.kept->last_counts(pass);
  if (last && last->first >= batch_) {
    batches_counted_ = last->first;
    since_start_ = last->second.score;
  } else if (pass > 0) {
    last = options_.kept->last_counts(pass - 1);
  }
  if (last && !std::exchange(has_first_cost_, true)) first_cost_ = last->second.first_cost;
}

bool Loop::is_saved(std::uint32_t pass) const {
  const std::uint32_t period = options_.train.saving_period;
  return period > 0 && ((pass + 1) % period == 0 || pass + 1 == options_.train.passes);
}

// A port that has passed the barrier after a save is at a position beyond the end of the pass.
bool Loop::was_saved(std::uint32_t pass) const {
  return options_.furthest > client::LanePosition{pass + 1ULL, 0, 0};
}

// A pass.

Status Loop::run_pass(std::uint32_t pass) {
  batch_ = pass == options_.start_pass ? options_.batches_done : 0;
  is_stopped_ = false;
  since_start_ = since_log_ = Score();
  batches_counted_ = batch_;
  busy_ = busy_at_log_ = {};
  share_trained_.reset();
  if (batch_ == 0) share_trained_ = 0;
  batch_reported_ = batch_;
  begun_at_ = logged_at_ = std::chrono::steady_clock::now();
  report(pass, wire::ACTIVITY_TRAINING);
  std::span<std::byte> index;
  if (options_.kept != nullptr) {
    restore(pass);
    index = options_.kept->pass_index();
  }
  if (has_lost_test(options_, {pass, batch_})) PADDLE_TRY_STATUS(test(pass, batch_));
  PassBatches batches(options_.train_data, dictionary_, client_,
                      {options_.uneven, pass, batch_, index});
  const std::uint64_t seed = hash_combine(hash_combine(options_.seed, pass), options_.trainer_id);
  BatchFeed feed(batches, model_, client_, {seed, batch_, options_.train.test_period});
  for (;;) {
    const TimePoint begun = std::chrono::steady_clock::now();
    PADDLE_TRY(const bool has_batch, feed.next());
    bad_records_ = feed.bad_records();
    if (!has_batch) {
      batches_of_pass_ = batch_;
      share_trained_ = 1;
      return {};
    }
    PADDLE_TRY_STATUS(train_batch(pass, feed, begun));
    share_trained_ = feed.share_given();
    report(pass, wire::ACTIVITY_TRAINING);
    // A stop request of this trainer also takes effect only when the servers return it, so that all
    // trainers of a round stop after the same batch.
    is_stopped_ = client_.stop_asked();
    if (is_stopped_) return {};
    if (batch_ % options_.train.log_period == 0) PADDLE_TRY_STATUS(log_progress(pass));
    const std::uint32_t test_period = options_.train.test_period;
    if (test_period > 0 && batch_ % test_period == 0) PADDLE_TRY_STATUS(test(pass, batch_));
  }
}

Status Loop::train_batch(std::uint32_t pass, BatchFeed& feed, TimePoint begun) {
  PADDLE_TRY_STATUS(feed.prepare());
  const TimePoint asked = std::chrono::steady_clock::now();
  PADDLE_TRY_STATUS(feed.pull());
  const TimePoint answered = std::chrono::steady_clock::now();
  if (options_.kept != nullptr) options_.kept->forget_push();
  Duration waited = {};
  PADDLE_TRY(Score score, feed.compute(waited));
  clip_gradients(options_.optimizer, model_.parameters(), model_.dense(), model_.rows());
  if (options_.train.skips_not_finite) {
    const std::string where =
        fmt::format("trainer {}, {}, batch {}", options_.trainer_id, pass_words(pass), batch_ + 1);
    PADDLE_TRY_STATUS(
        not_finite_.leave_out(where, model_.parameters(), model_.dense(), model_.rows(), score));
  }
  const Duration busy = (asked - begun) + (std::chrono::steady_clock::now() - answered) - waited;
  busy_ += busy;
  usual_rate_.add(score.samples, busy);
  if (wants_stop()) client_.ask_to_stop();
  if (!has_first_cost_ && score.samples > 0) {
    first_cost_ = model_.read(score).cost;
    has_first_cost_ = true;
  }
  samples_ += score.samples;
  since_log_.add(score);
  ++batch_;
  const bool is_counted = batch_ <= batches_counted_;
  if (!is_counted) {
    since_start_.add(score);
    batches_counted_ = batch_;
  }
  if (options_.kept != nullptr) {
    const PassCounts counts{since_start_, first_cost_};
    options_.kept->keep({pass, batch_}, score, is_counted ? nullptr : &counts, model_.rows());
  }
  return client_.push(score.samples, score.cost, model_.dense(), model_.rows());
}

// Between two passes, a pause without a batch ends when every trainer has asked for it: it is a
// barrier.
Status Loop::meet_others() {
  if (const auto all = client_.pause_pass(model_.empty_tally()); !all) return all.error();
  return {};
}

Status Loop::begin_long_work(std::uint32_t pass, wire::Activity activity) {
  report(pass, activity);
  return client_.announce_busy(activity == wire::ACTIVITY_TESTING ? "testing" : "saving");
}

// The end of a pass.

Status Loop::end_pass(std::uint32_t pass) {
  const double rate = examples_per_second(since_start_.samples,
                                          TimePoint(std::chrono::steady_clock::now()) - begun_at_);
  if (wants_stop()) client_.ask_to_stop();
  since_start_.tally.add(model_.empty_tally());  // a pass without a batch has no shape yet
  const Tally own = tally_to_send(pass);
  PADDLE_TRY(client::PassTotals totals,
             is_stopped_ ? client_.pause_pass(own) : client_.finish_pass(own));
  take_places(totals.tally);
  if (totals.paused) return stop(pass);
  if (totals.samples == 0 && batch_ == 0 && !had_records_before(options_, client_, pass))
    return no_record(options_, pass);
  const Reading all = model_.read({totals.samples, totals.cost, totals.tally});
  // An earlier process that ended at the end of the pass may have logged it already.
  if (options_.kept == nullptr || !options_.kept->is_told(pass)) tell_pass(pass, totals, all, rate);
  PADDLE_TRY_STATUS(check_divergence(all.cost));
  if (!options_.train.has_decisions()) {
    if (is_saved(pass)) PADDLE_TRY_STATUS(save_with_others(pass));
    return begin_next(pass);
  }
  if (is_saved(pass)) PADDLE_TRY_STATUS(save_or_copy(pass));
  PADDLE_TRY_STATUS(begin_next(pass));
  PADDLE_TRY_STATUS(decide(pass));
  return end_early(pass);
}

Tally Loop::tally_to_send(std::uint32_t pass) const {
  Tally tally = since_start_.tally;
  const std::size_t trainers = options_.train_data.num_trainers;
  const std::size_t own = tally.counts.size();
  if (own + tally.sums.size() + 2 * trainers > kTallyEntriesMax) return tally;
  tally.counts.resize(own + 2 * trainers);
  const std::size_t at = own + options_.trainer_id;
  tally.counts[at] = data::records_before(options_.train_data, pass, batch_);
  if (options_.data_hash) tally.counts[at + trainers] = options_.data_hash();
  return tally;
}

void Loop::take_places(Tally& tally) {
  const auto trainers = static_cast<std::ptrdiff_t>(options_.train_data.num_trainers);
  const std::size_t own = since_start_.tally.counts.size();
  place_ = {.order = options_.order, .records = {}, .data = {}};
  if (tally.counts.size() != own + 2ULL * options_.train_data.num_trainers) return;
  const auto records = tally.counts.begin() + static_cast<std::ptrdiff_t>(own);
  place_.records.assign(records, records + trainers);
  place_.data.assign(records + trainers, tally.counts.end());
  tally.counts.resize(own);
}

void Loop::tell_pass(std::uint32_t pass, const client::PassTotals& totals, const Reading& all,
                     double rate) {
  const Reading own = model_.read(since_start_);
  if (options_.is_brief) {
    if (options_.test_data.share.files.empty()) {
      log_plain(brief_line(pass_words(pass, options_.train.passes), "", all));
      said_at_ = std::chrono::steady_clock::now();
    }
  } else {
    log_info("{}", progress_line(pass, batch_, own, {}));
  }
  if (options_.trainer_id == 0 && !options_.is_brief) {  // one line for the whole job
    log_info("{}{}{}", totals_line(pass, all, totals.discarded), pushes_text("dense", totals.dense),
             pushes_text("sparse", totals.sparse));
    log_tables(pass, totals, model_.parameters());
  }
  if (bad_records_ > 0) log_warning("{} left out {} bad records", pass_words(pass), bad_records_);
  JsonObject more = totals_fields(all);
  more.add("first_cost", first_cost_).add("passes", options_.train.passes);
  more.add(pushes_fields("dense", totals.dense)).add(pushes_fields("sparse", totals.sparse));
  more.add("discarded", totals.discarded).add("bad_records", bad_records_);
  more.add("examples_per_second", rate);
  more.add("examples_per_busy_second", examples_per_second(since_start_.samples, busy_));
  metrics_.write("pass", pass, batch_, own, more);
  if (options_.kept != nullptr) options_.kept->mark_told(pass);
}

Status Loop::save_with_others(std::uint32_t pass) {
  PADDLE_TRY_STATUS(save_or_copy(pass));
  // The barrier keeps all trainers from pushing for the next pass while this one is saved: a job
  // that resumes from the snapshot would push those batches again.
  return meet_others();
}

Status Loop::save_or_copy(std::uint32_t pass) {
  if (!keeps_snapshots() || was_saved(pass)) return {};
  return options_.trainer_id == 0 ? save_pass(pass) : copy_pass(pass);
}

Status Loop::begin_next(std::uint32_t pass) {
  // The values of a trainer that ran out of data are old: it did not take part in the last rounds.
  PADDLE_TRY_STATUS(client_.pull_dense(model_.dense()));
  return test(pass);
}

Status Loop::stop(std::uint32_t pass) {
  const Reading own = model_.read(since_start_);
  if (options_.is_brief) {
    log_plain(brief_line(place_words(pass, options_.train.passes, batch_), "", own));
  } else {
    log_info("{}", progress_line(pass, batch_, own, {}));
  }
  const std::string place = fmt::format("in {}, after batch {} of trainer {}", pass_words(pass),
                                        batch_, options_.trainer_id);
  const bool is_late = is_time_over();
  const char* const why = is_late ? "stopped because train.time_max is over" : "stopped on request";
  // The next run counts from 0, so the metrics record how much of the pass this run has trained.
  JsonObject counts;
  counts.add("first_cost", first_cost_).add("passes", options_.train.passes);
  if (const auto done = pass_done()) counts.add("pass_done", *done);
  if (batch_ > 0) metrics_.write("train", pass, batch_, own, counts);
  if (is_late) {
    metrics_.write("stop", pass, batch_, own, JsonObject().add("why", "train.time_max is over"));
  }
  if (options_.save_dir.empty()) {
    PADDLE_TRY_STATUS(client_.leave());
    return Error{Errc::kInterrupted, fmt::format("{} {}; nothing was saved", why, place),
                 "set --save_dir to be able to resume"};
  }
  client_.snapshots().describe_place(place_);
  if (options_.trainer_id == 0) {
    PADDLE_TRY_STATUS(begin_long_work(pass, wire::ACTIVITY_SAVING));
    const std::string directory = stop_directory(options_.save_dir, pass, batch_);
    log_info("Saving parameters to {}", directory);
    PADDLE_TRY_STATUS(client_.snapshots().save(directory));
    metrics_.write("save", pass, batch_, own, JsonObject().add("path", directory));
  }
  if (saves_copies()) PADDLE_TRY_STATUS(copy_stop(pass));
  PADDLE_TRY_STATUS(client_.leave());
  return Error{Errc::kResumable, fmt::format("{} {}", why, place),
               "continue with --resume and the same --save_dir"};
}

// Held-out tests and early stopping. Trainer 0 publishes its decision at the barrier after each
// pass, and all trainers follow it, trainer 0 too. A job with train.best or train.stop_when has one
// barrier after each pass; trainer 0 reaches it when it has saved and tested.

Status Loop::test(std::uint32_t pass, std::uint64_t batch) {
  if (options_.trainer_id != 0 || options_.test_data.share.files.empty()) return {};
  const TimePoint begun = std::chrono::steady_clock::now();
  PADDLE_TRY_STATUS(begin_long_work(pass, wire::ACTIVITY_TESTING));
  if (options_.tests_shards) PADDLE_TRY_STATUS(client_.pull_averages(model_.dense(), {}));
  const auto stream = data::open_pass(options_.test_data, dictionary_, 0);
  PADDLE_TRY(const Score score, score_held_out(
                                    *stream, model_,
                                    [this](std::span<client::SparseRows> rows) {
                                      return client_.pull_averages({}, rows);
                                    },
                                    [&] { report(pass, wire::ACTIVITY_TESTING); }));
  if (score.samples == 0) return no_test_record(options_);
  if (options_.tests_shards) PADDLE_TRY_STATUS(client_.pull_dense(model_.dense()));
  const Reading reading = model_.read(score);
  tested_ = figures_of(reading);
  const TimePoint now = std::chrono::steady_clock::now();
  logged_at_ += now - begun;
  begun_at_ += now - begun;
  if (!KeptPush::is_new(options_.kept, KeptPush::Line::kTest, {pass, batch})) return {};
  tell_test(pass, batch, reading);
  if (const std::string why = undefined_note(reading); why != undefined_note_) {
    if (!why.empty()) log_warning("{}", why);
    undefined_note_ = why;
  }
  JsonObject more;
  more.add("examples_per_second", examples_per_second(score.samples, now - begun));
  metrics_.write("test", pass, batch_, reading, more);
  return {};
}

void Loop::tell_test(std::uint32_t pass, std::uint64_t batch, const Reading& reading) {
  if (!options_.is_brief) return log_info("{}", test_line(reading));
  const std::string what = batch == kEndOfPass ? pass_words(pass, options_.train.passes)
                                               : place_words(pass, options_.train.passes, batch);
  log_plain(brief_line(options_.train.passes > 0 ? what : "before training", "held-out ", reading));
  said_at_ = std::chrono::steady_clock::now();
}

bool Loop::is_time_over() const {
  return options_.trainer_id == 0 && options_.ends_at &&
         std::chrono::steady_clock::now() >= *options_.ends_at;
}

bool Loop::wants_stop() const {
  return (options_.stop_requested && options_.stop_requested()) || is_time_over();
}

bool Loop::keeps_snapshots() const {
  return saves_copies() || (options_.trainer_id == 0 && !options_.save_dir.empty());
}

Status Loop::decide(std::uint32_t pass) {
  Decision own;
  if (options_.trainer_id == 0) {
    if (tested_) early_stop_.add({pass, *std::exchange(tested_, std::nullopt)});
    own.reason = early_stop_.judge();
    if (early_stop_.has_test(pass)) own.figures = early_stop_.tests().back().figures;
  }
  return hear_decision(pass, own);
}

// A restarted trainer receives the same decision as its first process did.
Status Loop::hear_decision(std::uint32_t pass, const Decision& own) {
  const std::vector<nn::Value> figures = figures_of(model_.read(Score()));
  PADDLE_TRY(const client::PassTotals all, client_.pause_pass(encode(own, figures)));
  const auto heard = decode_decision(all.tally, figures);
  if (!heard) {
    return Error{Errc::kFailed, "the barrier after a pass returned no decision", "this is a bug"};
  }
  if (!heard->figures.empty()) early_stop_.add({pass, heard->figures});
  if (heard->reason != EndReason::kNone && pass + 1 < options_.train.passes) {
    const std::string why = early_stop_.explain(heard->reason);
    log_info("training ends with {}: {}", pass_words(pass), why);
    metrics_.write("stop", pass, batch_, model_.read(since_start_), JsonObject().add("why", why));
    options_.train.passes = pass + 1;
    reported_at_ -= std::chrono::seconds(1);  // makes a report due, with fewer passes
    report(pass, activity_);
  }
  if (!keeps_snapshots()) return {};
  const Status written = write_tests(options_.save_dir, early_stop_.tests());
  if (!written) log_warning("{}; a resumed job may not know these tests", written.error().message);
  note_best();
  return {};
}

Status Loop::hear_again(std::uint32_t pass) {
  has_met_at_end_ = options_.meetings_done > 1;
  if (has_met_at_end_) {
    options_.train.passes = pass + 1;
    return {};
  }
  client_.repeat_end(client::PassEnd::kPause);
  return hear_decision(pass, {});
}

// A job that resumes from the snapshot of a whole pass decides again: that pass may be its last
// one.
Status Loop::decide_at_start() {
  if (options_.start_pass == 0 || options_.start_pass >= options_.train.passes) return {};
  const std::uint32_t pass = options_.start_pass - 1;
  const bool is_within = options_.batches_done > 0 || options_.begins_within_pass;
  if (options_.meetings_done > 0) return is_within ? Status() : hear_again(pass);
  if (!is_within && !early_stop_.has_test(pass)) PADDLE_TRY_STATUS(test(pass));
  return decide(pass);
}

// After the last pass of a job that ends early, saves a full snapshot if there is none: the last
// snapshot of a job is a full one.
Status Loop::end_early(std::uint32_t pass) {
  const bool is_over = pass + 1 == options_.train.passes;
  if (!is_over || !is_saved(pass) || !keeps_snapshots()) return {};
  if (full_pass_ != pass) {
    PADDLE_TRY_STATUS(options_.trainer_id == 0 ? save_pass(pass) : copy_pass(pass));
    note_best();
  }
  remove_former_best(pass);
  return {};
}

// Leaves out the tests of passes that are trained again.
void Loop::recall_tests() {
  if (!keeps_snapshots()) return;
  auto tests = read_tests(options_.save_dir);
  if (!tests) return log_warning("{}; only tests from now on count", tests.error().message);
  for (PassTest& test : *tests) {
    if (test.pass < options_.start_pass) early_stop_.add(std::move(test));
  }
  note_best();
}

void Loop::note_best() {
  const auto is_saved = [this](std::uint32_t pass) {
    return snapshot::kernel_file_system().exists(pass_directory(options_.save_dir, pass));
  };
  const auto best = early_stop_.best(is_saved);
  best_ = best ? snapshot::pass_name(*best) : "";
  const Status written = write_best(options_.save_dir, best_);
  if (!written) log_warning("{}; the file may name another pass", written.error().message);
}

// Reports, and lines of the log.

std::optional<double> Loop::pass_done() const {
  if (!batches_of_pass_) return share_trained_;
  if (*batches_of_pass_ == 0) return 1;
  return std::min(1.0, static_cast<double>(batch_) / static_cast<double>(*batches_of_pass_));
}

void Loop::report(std::uint32_t pass, wire::Activity activity) {
  const TimePoint now = std::chrono::steady_clock::now();
  // The first batch is reported at once: it shows the supervisor that this process trains and does
  // not only wait.
  const bool is_first_batch = samples_ > 0 && !has_reported_batch_;
  const bool is_due =
      is_first_batch || activity != activity_ || now - reported_at_ >= kReportPeriod;
  if (!options_.report || !is_due) return;
  has_reported_batch_ = samples_ > 0;
  const Reading reading = model_.read(since_start_);
  if (reading.samples > 0) reported_cost_ = reading.cost;
  wire::Progress progress;
  progress.set_pass(pass);
  progress.set_passes(options_.train.passes);
  progress.set_pass_done(static_cast<float>(pass_done().value_or(std::nan(""))));
  progress.set_batch(batch_);
  progress.set_cost(reported_cost_);
  progress.set_examples_per_second(rate_.add(now, samples_, activity_ == wire::ACTIVITY_TRAINING));
  progress.set_examples_per_busy_second(usual_rate_.take());
  progress.set_activity(activity);
  progress.set_save_failure(save_failure_);
  progress.set_went_back(options_.went_back.substr(0, kFailureBytesMax));
  if (batch_ > batch_reported_) {
    const auto each = (now - reported_at_) / (batch_ - batch_reported_);
    progress.set_batch_ms(static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(each).count()));
  }
  batch_reported_ = batch_;
  options_.report(progress);
  activity_ = activity;
  reported_at_ = now;
}

// A trainer without records has no first cost to compare with.
Status Loop::check_divergence(double cost) {
  const double limit = kDivergenceRatio * std::max(std::abs(first_cost_), kCostMin);
  if (std::isfinite(cost) && (!has_first_cost_ || std::abs(cost) <= limit)) return {};
  std::string what =
      fmt::format("training diverges: the cost is {:.6g}, that of the first batch was {:.6g}", cost,
                  first_cost_);
  const std::string hint =
      "lower optimizer.learning_rate, or bound gradients with optimizer.clip_global_norm";
  if (options_.train.stop_on_divergence) return Error{Errc::kFailed, std::move(what), hint};
  if (!std::exchange(is_diverging_, true)) log_warning("{}; {}", what, hint);
  return {};
}

Status Loop::log_progress(std::uint32_t pass) {
  const Reading since_start = model_.read(since_start_);
  const Reading since_log = model_.read(std::exchange(since_log_, Score()));
  const TimePoint now = std::chrono::steady_clock::now();
  const Duration took = now - std::exchange(logged_at_, now);
  const Duration busy = busy_ - std::exchange(busy_at_log_, busy_);
  if (batch_ < batches_counted_) return {};  // an earlier process that came further has logged it
  if (!KeptPush::is_new(options_.kept, KeptPush::Line::kBatch, {pass, batch_})) return {};
  if (!options_.is_brief) {
    log_info("{}", progress_line(pass, batch_, since_start, since_log));
  } else if (now - said_at_ > kBriefPeriod) {
    log_plain(brief_line(place_words(pass, options_.train.passes, batch_), "", since_start));
    said_at_ = now;
  }
  JsonObject more;
  more.add("current_cost", since_log.cost).add("first_cost", first_cost_);
  more.add("examples_per_second", examples_per_second(since_log.samples, took));
  more.add("examples_per_busy_second", examples_per_second(since_log.samples, busy));
  if (const auto done = pass_done()) more.add("pass_done", *done);
  more.add("passes", options_.train.passes);
  metrics_.write("train", pass, batch_, since_start, more);
  return check_divergence(since_log.cost);
}

// Snapshots of passes, and what happens to training when one fails.

// Saves a full snapshot or a delta; the last snapshot is always full.
Status Loop::save(std::uint32_t pass) {
  PADDLE_TRY_STATUS(begin_long_work(pass, wire::ACTIVITY_SAVING));
  const std::string directory = pass_directory(options_.save_dir, pass);
  const bool is_full = base_.empty() || pass + 1 == options_.train.passes ||
                       deltas_ + 1 >= options_.train.full_snapshot_period;
  if (is_full) {
    if (!options_.is_brief) log_info("Saving parameters to {}", directory);
    PADDLE_TRY_STATUS(client_.snapshots().save(directory));
    base_ = directory;
    deltas_ = 0;
  } else {
    log_info("Saving what changed since {} to {}", base_, directory);
    PADDLE_TRY_STATUS(client_.snapshots().save_delta(directory, base_));
    ++deltas_;
  }
  if (options_.train.snapshots_kept > 0) PADDLE_TRY_STATUS(keep_newest(pass));
  if (is_full) full_pass_ = pass;
  return {};
}

Status Loop::save_pass(std::uint32_t pass) {
  const std::string path = pass_directory(options_.save_dir, pass);
  Status saved = save(pass);
  if (saved) {
    save_failure_.clear();
    metrics_.write("save", pass, batch_, model_.read(since_start_), JsonObject().add("path", path));
    return {};
  }
  const bool is_last = pass + 1 == options_.train.passes;
  if (is_last || !can_train_on(saved.error())) return saved;
  base_.clear();  // the shards have forgotten what changed since then
  save_failure_ = fmt::format("saving {}: {}", snapshot::pass_name(pass), saved.error().message)
                      .substr(0, kFailureBytesMax);
  log_warning("{}; earlier snapshots stay, and training continues", save_failure_);
  return {};
}

// The disk may have room again at the next pass. A job that has saved nothing yet has little to
// lose, and may never be able to save.
bool Loop::can_train_on(const Error& failure) const {
  if (failure.code == Errc::kData) return true;  // written, but incomplete
  if (failure.code != Errc::kResource) return false;
  const auto names = snapshot::snapshot_names(options_.save_dir);
  return names && !names->empty();
}

Status Loop::keep_newest(std::uint32_t pass) {
  best_kept_ = best_;
  return snapshot::keep_newest(options_.save_dir, pass, options_.train.snapshots_kept, best_);
}

// The test after the last save may have found a better pass than the one that was kept for it.
void Loop::remove_former_best(std::uint32_t pass) {
  if (options_.train.snapshots_kept == 0 || best_ == best_kept_) return;
  if (const Status kept = keep_newest(pass); !kept)
    log_warning("{}; one snapshot more than train.snapshots_kept is kept", kept.error().message);
}

// Copies of trainer 0's snapshots on another node.

bool Loop::saves_copies() const {
  return options_.saves_copy && options_.trainer_id != 0 && !options_.save_dir.empty();
}

Status Loop::copy_pass(std::uint32_t pass) {
  PADDLE_TRY_STATUS(begin_long_work(pass, wire::ACTIVITY_SAVING));
  return copy_to(pass, pass_directory(options_.save_dir, pass));
}

// The name contains trainer 0's number of batches, which may differ from this trainer's.
Status Loop::copy_stop(std::uint32_t pass) {
  PADDLE_TRY_STATUS(begin_long_work(pass, wire::ACTIVITY_SAVING));
  PADDLE_TRY(const std::uint64_t batches, client_.snapshots().leader_batches());
  return copy_to(pass, stop_directory(options_.save_dir, pass, batches));
}

Status Loop::copy_to(std::uint32_t pass, const std::string& directory) {
  log_info("Saving a copy of the parameters to {}", directory);
  Status saved = client_.snapshots().save_copy(directory);
  const bool is_pass = directory == pass_directory(options_.save_dir, pass);
  if (saved && is_pass && options_.train.snapshots_kept > 0) {
    saved = keep_newest(pass);
  }
  if (saved && is_pass) full_pass_ = pass;
  if (saved || !is_of_node(saved.error())) return saved;
  log_warning("{}; the copy on this node is missing; the job continues", saved.error().message);
  return {};
}

}  // namespace paddle::trainer
