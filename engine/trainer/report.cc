#include "engine/trainer/report.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/log.h"
#include "base/text.h"

namespace paddle::trainer {
namespace {

constexpr auto kPublishPeriod = std::chrono::seconds(1);
constexpr auto kBriefPeriod = std::chrono::seconds(10);  // between lines within a pass
constexpr double kDivergenceRatio = 1000;
constexpr double kCostMin = 1e-6;                 // the first batch may have a cost of 0
constexpr std::uint64_t kEndOfPass = UINT64_MAX;  // in ReplayLog: the batch of a test at the end

TimePoint now() {
  return std::chrono::steady_clock::now();
}

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

// The lines of the whole job at the end of a pass, which trainer 0 writes.
void log_totals(const Record& record, std::span<const wire::ParameterSpec> parameters) {
  const client::PassTotals& totals = *record.totals;
  log_info("{}{}{}", totals_line(record.pass, record.all, totals.discarded),
           pushes_text("dense", totals.dense), pushes_text("sparse", totals.sparse));
  for (const auto& [parameter, table] : totals.tables) {
    const double rows = static_cast<double>(std::max<std::uint64_t>(1, table.rows));
    log_info(
        "Pass={} table '{}': rows={} MiB={:.1f} bytes_per_row={:.1f} "
        "beside_payload={:.1f} "
        "candidates={} expired={} shrunk={} evicted={}",
        record.pass, parameters[parameter].name(), table.rows,
        static_cast<double>(table.bytes) / (1 << 20), static_cast<double>(table.bytes) / rows,
        static_cast<double>(table.bytes - table.payload_bytes) / rows, table.candidates,
        table.expired, table.shrunk, table.evicted);
  }
}

// The kind of the line in metrics.jsonl.
std::string_view metrics_kind(Record::Kind kind) {
  switch (kind) {
    case Record::Kind::kTrain:
    case Record::Kind::kPause:
      break;
    case Record::Kind::kPass:
      return "pass";
    case Record::Kind::kTest:
      return "test";
    case Record::Kind::kSave:
      return "save";
    case Record::Kind::kStop:
      return "stop";
  }
  return "train";
}

}  // namespace

// The views of a record.

std::string log_text(const Record& record) {
  switch (record.kind) {
    case Record::Kind::kTrain:
      return progress_line(record.pass, record.batch, record.reading, record.current);
    case Record::Kind::kPause:
    case Record::Kind::kPass:
      return progress_line(record.pass, record.batch, record.reading, {});
    case Record::Kind::kTest:
      return test_line(record.reading);
    case Record::Kind::kStop:
      return fmt::format("training ends with {}: {}", pass_words(record.pass), record.why);
    case Record::Kind::kSave:
      break;
  }
  return "";
}

std::string brief_text(const Record& record) {
  const std::string pass = pass_words(record.pass, record.passes);
  const std::string batch = fmt::format("{}, batch {}", pass, record.batch);
  switch (record.kind) {
    case Record::Kind::kTrain:
    case Record::Kind::kPause:
      return brief_line(batch, "", record.reading);
    case Record::Kind::kPass:
      return brief_line(pass, "", record.all);
    case Record::Kind::kTest:
      if (record.passes == 0) return brief_line("before training", "held-out ", record.reading);
      return brief_line(record.is_within_pass ? batch : pass, "held-out ", record.reading);
    case Record::Kind::kSave:
    case Record::Kind::kStop:
      break;
  }
  return log_text(record);
}

JsonObject metrics_fields(const Record& record) {
  JsonObject fields;
  switch (record.kind) {
    case Record::Kind::kTrain:
      fields.add("current_cost", record.current.cost).add("first_cost", record.first_cost);
      fields.add("examples_per_second", record.per_second);
      fields.add("examples_per_busy_second", record.per_busy_second);
      if (record.share_done) fields.add("pass_done", *record.share_done);
      fields.add("passes", record.passes);
      break;
    case Record::Kind::kPause:
      // The next run counts from 0, so this line has how much of the pass this run has trained.
      fields.add("first_cost", record.first_cost).add("passes", record.passes);
      if (record.share_done) fields.add("pass_done", *record.share_done);
      break;
    case Record::Kind::kPass:
      fields.add(totals_fields(record.all));
      fields.add("first_cost", record.first_cost).add("passes", record.passes);
      fields.add(pushes_fields("dense", record.totals->dense));
      fields.add(pushes_fields("sparse", record.totals->sparse));
      fields.add("discarded", record.totals->discarded).add("bad_records", record.bad_records);
      fields.add("examples_per_second", record.per_second);
      fields.add("examples_per_busy_second", record.per_busy_second);
      break;
    case Record::Kind::kTest:
      fields.add("examples_per_second", record.per_second);
      break;
    case Record::Kind::kSave:
      fields.add("path", record.path);
      break;
    case Record::Kind::kStop:
      fields.add("why", record.why);
      break;
  }
  return fields;
}

wire::Progress to_progress(const Record& record) {
  wire::Progress progress;
  progress.set_pass(record.pass);
  progress.set_passes(record.passes);
  progress.set_pass_done(static_cast<float>(record.share_done.value_or(std::nan(""))));
  progress.set_batch(record.batch);
  progress.set_cost(record.reading.cost);
  progress.set_examples_per_second(record.per_second);
  progress.set_examples_per_busy_second(record.per_busy_second);
  return progress;
}

// Rates.

double RateMeter::add(TimePoint now, std::uint64_t examples, bool trained) {
  if (last_ && trained) window_ += now - *last_;
  last_ = now;
  if (window_ < kRateWindow) return rate_;
  const double seconds = std::chrono::duration<double>(window_).count();
  rate_ = static_cast<double>(examples - examples_) / seconds;
  window_ = {};
  examples_ = examples;
  return rate_;
}

double UsualRate::take() {
  if (busy_ > Duration::zero()) {
    last_[reports_++ % last_.size()] =
        static_cast<double>(examples_) / std::chrono::duration<double>(busy_).count();
    examples_ = 0;
    busy_ = {};
  }
  if (reports_ < kReportsMin) return 0;
  auto sorted = last_;
  const auto end = sorted.begin() + static_cast<std::ptrdiff_t>(std::min(reports_, sorted.size()));
  const auto middle = sorted.begin() + (end - sorted.begin()) / 2;
  std::nth_element(sorted.begin(), middle, end);
  return *middle;
}

// Counts between lines.

void Report::begin_pass(const PassProgress& at) {
  since_line_ = Score();
  busy_ = busy_at_line_ = {};
  batch_published_ = at.batch;
  pass_begun_at_ = line_at_ = now();
}

void Report::add_batch(const Score& score, Duration busy) {
  busy_ += busy;
  usual_rate_.add(score.samples, busy);
  if (!first_cost_ && score.samples > 0) first_cost_ = model_.read(score).cost;
  samples_ += score.samples;
  since_line_.add(score);
}

double Report::rate_of_pass(const PassProgress& at) const {
  return examples_per_second(at.score.samples, now() - pass_begun_at_);
}

// Progress for the supervisor.

void Report::publish(const PassProgress& at, wire::Activity activity) {
  const TimePoint time = now();
  // The first batch is published at once: it shows the supervisor that this process trains and does
  // not only wait.
  const bool is_first_batch = samples_ > 0 && !has_published_batch_;
  const bool is_due = is_first_batch || has_new_best_ || activity != activity_ ||
                      time - published_at_ >= kPublishPeriod;
  if (!options_.publish || !is_due) return;
  has_published_batch_ = samples_ > 0;
  has_new_best_ = false;
  Record record = record_of(Record::Kind::kTrain, at);
  if (record.reading.samples > 0) published_cost_ = record.reading.cost;
  record.reading.cost = published_cost_;
  record.per_second = rate_.add(time, samples_, activity_ == wire::ACTIVITY_TRAINING);
  record.per_busy_second = usual_rate_.take();
  wire::Progress progress = to_progress(record);
  progress.set_activity(activity);
  progress.set_save_failure(save_failure_);
  progress.set_restored_from(options_.restored_from.substr(0, kFailureBytesMax));
  if (best_) *progress.mutable_best() = *best_;
  if (at.batch > batch_published_) {
    const auto each = (time - published_at_) / (at.batch - batch_published_);
    progress.set_batch_ms(static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(each).count()));
  }
  batch_published_ = at.batch;
  options_.publish(progress);
  activity_ = activity;
  published_at_ = time;
}

void Report::publish_best(const PassProgress& at, std::uint32_t pass, const nn::Value& figure) {
  wire::Best& best = best_.emplace();
  best.set_pass(pass);
  best.set_figure(figure.name);
  best.set_value(figure.value);
  has_new_best_ = true;
  publish(at, activity_);
}

Status Report::begin_long_work(const PassProgress& at, wire::Activity activity) {
  publish(at, activity);
  return client_.announce_busy(activity == wire::ACTIVITY_TESTING ? "testing" : "saving");
}

// Lines.

Record Report::record_of(Record::Kind kind, const PassProgress& at) const {
  Record record;
  record.kind = kind;
  record.pass = at.pass;
  record.passes = at.passes;
  record.batch = at.batch;
  record.share_done = at.share_done;
  record.reading = model_.read(at.score);
  record.first_cost = first_cost();
  return record;
}

Status Report::write_train(const PassProgress& at) {
  Record record = record_of(Record::Kind::kTrain, at);
  record.current = model_.read(std::exchange(since_line_, Score()));
  const TimePoint time = now();
  record.per_second =
      examples_per_second(record.current.samples, time - std::exchange(line_at_, time));
  record.per_busy_second =
      examples_per_second(record.current.samples, busy_ - std::exchange(busy_at_line_, busy_));
  if (at.batch < at.batches_counted) return {};  // an earlier process has written its line
  if (!ReplayLog::claim_line(options_.kept, ReplayLog::Line::kBatch, {at.pass, at.batch}))
    return {};
  log(record);
  write_metrics(record);
  return check_divergence(record.current.cost);
}

void Report::write_pause(const PassProgress& at, std::string_view why) {
  Record record = record_of(Record::Kind::kPause, at);
  log(record);
  if (at.batch > 0) write_metrics(record);
  if (why.empty()) return;
  record.kind = Record::Kind::kStop;
  record.why = why;
  write_metrics(record);
}

Status Report::write_pass(const PassProgress& at, const client::PassTotals& totals, double rate) {
  Record record = record_of(Record::Kind::kPass, at);
  record.all = model_.read({totals.samples, totals.cost, totals.tally});
  record.totals = &totals;
  record.bad_records = at.bad_records;
  record.per_second = rate;
  record.per_busy_second = examples_per_second(at.score.samples, busy_);
  // An earlier process that ended at the end of the pass may have written it already.
  if (options_.kept == nullptr || !options_.kept->is_pass_written(at.pass)) {
    log(record);
    write_metrics(record);
    if (options_.kept != nullptr) options_.kept->mark_pass_written(at.pass);
  }
  return check_divergence(record.all.cost);
}

void Report::write_test(const PassProgress& at, bool is_within_pass, const Reading& reading,
                        Duration took) {
  line_at_ += took;
  pass_begun_at_ += took;
  const BatchNumber place{at.pass, is_within_pass ? at.batch : kEndOfPass};
  if (!ReplayLog::claim_line(options_.kept, ReplayLog::Line::kTest, place)) return;
  Record record = record_of(Record::Kind::kTest, at);
  record.reading = reading;
  record.is_within_pass = is_within_pass;
  record.per_second = examples_per_second(reading.samples, took);
  log(record);
  if (const std::string note = undefined_note(reading); note != undefined_note_) {
    if (!note.empty()) log_warning("{}", note);
    undefined_note_ = note;
  }
  write_metrics(record);
}

void Report::write_save(const PassProgress& at, const std::string& path) {
  Record record = record_of(Record::Kind::kSave, at);
  record.path = path;
  write_metrics(record);
}

void Report::write_stop(const PassProgress& at, const std::string& why) {
  Record record = record_of(Record::Kind::kStop, at);
  record.why = why;
  log(record);
  write_metrics(record);
  published_at_ -= kPublishPeriod;  // makes a report due, with fewer passes
  publish(at, activity_);
}

void Report::log(const Record& record) {
  if (options_.is_brief && record.kind != Record::Kind::kStop) {
    log_brief(record);
  } else {
    log_info("{}", log_text(record));
  }
  if (record.kind != Record::Kind::kPass) return;
  if (options_.trainer_id == 0 && !options_.is_brief) log_totals(record, model_.parameters());
  if (record.bad_records > 0)
    log_warning("{} left out {} bad records", pass_words(record.pass), record.bad_records);
}

// A test at the end of a pass takes the place of the pass's own line.
void Report::log_brief(const Record& record) {
  const bool has_tests = !options_.test_data.share.files.empty();
  if (record.kind == Record::Kind::kPass && has_tests) return;
  if (record.kind == Record::Kind::kTrain && now() - brief_at_ <= kBriefPeriod) return;
  log_plain(brief_text(record));
  brief_at_ = now();
}

void Report::write_metrics(const Record& record) {
  metrics_.write(metrics_kind(record.kind), record.pass, record.batch, record.reading,
                 metrics_fields(record));
}

// A trainer without records has no first cost to compare with.
Status Report::check_divergence(double cost) {
  const double limit = kDivergenceRatio * std::max(std::abs(first_cost()), kCostMin);
  if (std::isfinite(cost) && (!first_cost_ || std::abs(cost) <= limit)) return {};
  std::string what = fmt::format(
      "training diverges: the cost is {:.6g}, that "
      "of the first batch was {:.6g}",
      cost, first_cost());
  const std::string hint =
      "lower optimizer.learning_rate, or bound gradients "
      "with optimizer.clip_global_norm";
  if (options_.train.stop_on_divergence) return Error{Errc::kFailed, std::move(what), hint};
  if (!std::exchange(is_diverging_, true)) log_warning("{}; {}", what, hint);
  return {};
}

}  // namespace paddle::trainer
