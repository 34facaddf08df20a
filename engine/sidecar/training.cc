#include "engine/sidecar/training.h"

#include <fcntl.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "base/text.h"
#include "base/version.h"
#include "engine/data/objects.h"
#include "engine/math/update_kernels.h"
#include "engine/snapshot/info.h"
#include "engine/snapshot/reader.h"
#include "engine/snapshot/retention.h"
#include "engine/strategy/strategy_table.h"
#include "engine/table/parameter_set.h"
#include "engine/table/row_notes.h"
#include "engine/trainer/model.h"
#include "engine/trainer/pass_snapshots.h"
#include "engine/trainer/start.h"

namespace paddle::sidecar {
namespace {

// So many costs can be added up: their sum is a number in any pass.
constexpr double kCostMax = 1e300;

std::string_view strategy_name(wire::Strategy id) {
  for (const strategy::Strategy* one : strategy::strategies()) {
    if (one->id == id) return one->name;
  }
  return "";
}

UniqueFd duplicate(const UniqueFd& fd) {
  return fd ? UniqueFd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0)) : UniqueFd();
}

}  // namespace

// The start: the job, the connections, the values.

Result<JsonObject> Training::hello(const std::string& code) {
  if (ended_) return *ended_;
  if (client_ || has_left_) return Error{Errc::kUsage, "hello was answered already"};
  PADDLE_TRY_STATUS(configure(code));
  PADDLE_TRY_STATUS(join());
  if (!has_left_) PADDLE_TRY_STATUS(noted(start()));
  return described();
}

Status Training::configure(const std::string& code) {
  trainer::TrainOptions& options = options_.trainer;
  PADDLE_TRY_STATUS(trainer::check_start(options));
  PADDLE_TRY(job_, config::read_tables_job(options.config, options.overrides, code));
  job_.node_groups = false;  // adds up dense gradients, of which there are none
  specs_ = config::table_parameters(job_);
  for (const wire::ParameterSpec& spec : specs_) {
    if (parameter::RowNotes(spec.table()).size() == 0) continue;
    return Error{Errc::kUsage,
                 fmt::format("table '{}' counts shows, clicks or slots, which a program's pushes "
                             "do not have",
                             spec.name()),
                 "leave out its keys shrink and entry"};
  }
  PADDLE_TRY_STATUS(trainer::check_pservers(job_, options));
  parameters_ = trainer::parameter_set(job_, specs_, options);
  gradient_limit_ = parameter::gradient_limit(parameters_);
  series_.emplace(job_.train.full_snapshot_period);
  PADDLE_TRY_STATUS(trainer::prepare_save_folder(options));
  job_text_.clear();
  if (!options.config.empty()) {
    PADDLE_TRY(job_text_, read_file(options.config));
  }
  if (!code.empty()) job_text_ += (job_text_.empty() ? "" : "\n") + code;
  return {};
}

// Sets client_, or has_left_ if the job is over.
Status Training::join() {
  trainer::TrainOptions& options = options_.trainer;
  options.gives_up = [this] {
    const std::scoped_lock lock(mutex_);
    return interrupted_ || broken_off_;
  };
  auto joined = trainer::join_shards(
      job_, parameters_, trainer::options_to_join(options, parameters_, options_.memory), team_,
      [this](const std::string& reason) {
        const std::scoped_lock lock(mutex_);
        waiting_ = reason;
      });
  if (!joined) {
    if (!trainer::ReplayLog::was_leaving(options_.memory)) return std::move(joined).error();
    log_info("the job had already ended: {}", joined.error().message);
    is_over_ = has_left_ = true;
    return {};
  }
  const bool is_over = (*joined)->progress().is_over;
  if (is_over) PADDLE_TRY_STATUS(trainer::leave_over(**joined));
  const std::scoped_lock lock(mutex_);
  is_over_ = has_left_ = is_over;
  if (is_over) return {};
  client_ = *std::move(joined);
  if (is_stop_asked_ || options_.is_stop_asked) client_->ask_to_stop();
  if (interrupted_) client_->interrupt(*interrupted_);
  if (broken_off_) client_->break_off(*broken_off_);
  return {};
}

Status Training::start() {
  const trainer::TrainOptions& options = options_.trainer;
  has_returned_ = client_->progress().is_running;
  const auto on_resume = [this](const snapshot::SnapshotReader& snapshot) {
    is_resumed_ = true;
    return state_.load(snapshot);
  };
  std::string restored_from;  // a damaged newer one is in the log
  PADDLE_TRY_STATUS(trainer::start_training(options, *client_, restored_from, on_resume));
  const bool loads_model =
      options.trainer_id == 0 && !has_returned_ && !is_resumed_ && !options.init_model_path.empty();
  if (loads_model) {
    PADDLE_TRY(const auto model, snapshot::SnapshotReader::open(options.init_model_path));
    PADDLE_TRY_STATUS(state_.load(model));
  }
  const bool comes_back = options_.memory && parameters_.trainers_return();
  if (options_.start_heartbeats) {
    heartbeats_ = options_.start_heartbeats(*client_, comes_back);
  }
  auto kept = trainer::open_replay_log(duplicate(options_.memory), parameters_, *client_, {}, {});
  if (kept) {
    kept_ = *std::move(kept);
  } else {  // a loss sends the job back to its last snapshot
    log_warning("{}", kept.error().message);
  }
  if (!kept_) trainer::ReplayLog::note_leaving(options_.memory, false);
  PADDLE_TRY_STATUS(trainer::repeat_last_push(kept_.get(), *client_, {}));
  if (client_->progress().is_split) {
    const Error lost = trainer::lost_push(options.trainer_id);
    client_->abandon(lost);
    return lost;
  }
  find_position();
  for (const wire::ParameterSpec& spec : specs_) {
    tables_.push_back({spec.name(), parameter::row_width(spec)});
  }
  return {};
}

void Training::find_position() {
  const client::JobProgress progress = client_->progress();
  pass_ = progress.passes;
  batch_ = progress.batches;
  furthest_ = progress.furthest;
  is_resumed_ = is_resumed_ || pass_ + batch_ > 0;
  counts_ = {};
  batches_counted_ = batch_;
  if (!kept_) return;
  const bool is_at_end = has_returned_ && pass_ > progress.passes_loaded && batch_ == 0 &&
                         progress.pauses == 0 && !progress.is_split;
  if (is_at_end) {
    if (const auto last = kept_->last_counts(pass_ - 1)) {
      repeats_end_ = true;
      --pass_;
      batch_ = last->first;
    }
  }
  barrier_ = kept_->last_barrier();
  const auto counts = kept_->last_counts(pass_);
  if (!counts || counts->first < batch_) return;
  batches_counted_ = counts->first;
  counts_ = counts->second;
}

JsonObject Training::described() const {
  const auto bytes = state_.loaded_bytes();
  return JsonObject()
      .add("engine", std::string_view(kProgramVersion))
      .add("trainer", options_.trainer.trainer_id)
      .add("trainers", parameters_.num_trainers())
      .add("pass", pass_)
      .add("batch", batch_)
      .add("samples", client_ ? client_->progress().samples : 0)
      .add("resumed", is_resumed_)
      .add("returned", has_returned_)
      .add("state_bytes", bytes ? static_cast<std::int64_t>(*bytes) : -1)
      .add("is_over", is_over_)
      .add("strategy", strategy_name(parameters_.sparse_strategy()))
      .add("save_dir", std::string_view(options_.trainer.save_dir));
}

// Rows.

Status Training::check_joined() const {
  if (ended_) return *ended_;
  if (has_left_) return Error{Errc::kUsage, "the program has left the job"};
  if (!client_) return Error{Errc::kUsage, "the first request must be hello"};
  return {};
}

template <class T>
Result<T> Training::noted(Result<T> outcome) {
  if (!outcome) ended_ = outcome.error();
  const std::scoped_lock lock(mutex_);
  waiting_.clear();
  return outcome;
}

Status Training::pull(std::span<client::SparseRows> rows, bool is_test) {
  PADDLE_TRY_STATUS(check_joined());
  if (!is_test) return noted(client_->pull_rows(rows));
  if (!is_tested_) PADDLE_TRY_STATUS(noted(client_->announce_busy("testing")));
  is_tested_ = true;
  return noted(client_->pull_averages({}, rows));
}

// The pservers end the job for a batch of more samples.
Status Training::check_batch(std::uint64_t samples, double cost) {
  if (samples > parameter::kBatchSamplesMax) {
    return Error{Errc::kUsage,
                 fmt::format("'samples' is {}; a batch has at most {}", samples,
                             parameter::kBatchSamplesMax),
                 "give the samples of this batch, not those of the pass"};
  }
  if (std::abs(cost) <= kCostMax) return {};
  return Error{
      Errc::kUsage,
      fmt::format("'cost' is {}, whose size is above {}: it cannot be added up", cost, kCostMax),
      "give the sum of the losses of this batch"};
}

Status Training::check_finite(const Gradients& gradients) const {
  for (const client::SparseRows& rows : gradients) {
    if (optim::all_below(rows.gradients, gradient_limit_)) continue;
    const auto is_bad = [this](float value) { return !(std::abs(value) < gradient_limit_); };
    const auto bad = std::ranges::find_if(rows.gradients, is_bad);
    const TableShape& table = tables_[rows.parameter];
    const auto row = static_cast<std::uint64_t>(bad - rows.gradients.begin()) / table.width;
    return Error{
        Errc::kData,
        fmt::format("trainer {}, {}, batch {}: a gradient of row {} of table '{}' is {}: not "
                    "finite, or too large; nothing of this batch was pushed",
                    options_.trainer.trainer_id, pass_words(pass_), batch_ + 1, rows.ids[row],
                    table.name, *bad),
        "lower optimizer.learning_rate, bound gradients with optimizer.clip_norm, or check the "
        "data of this batch"};
  }
  return {};
}

Result<JsonObject> Training::push(std::uint64_t samples, double cost, Gradients& gradients) {
  PADDLE_TRY_STATUS(check_joined());
  if (is_paused_) {
    return Error{Errc::kUsage, "another trainer has paused the pass, which all must save now",
                 "call save() when finish_pass() says that the pass is paused"};
  }
  if (repeats_end_) {
    return Error{Errc::kData,
                 fmt::format("trainer {} trained {} batches of {} before it was started again, and "
                             "has more now",
                             options_.trainer.trainer_id, batch_, pass_words(pass_)),
                 "give each pass the same batches, whenever the program is started"};
  }
  PADDLE_TRY_STATUS(check_batch(samples, cost));
  trainer::clip_gradients(parameters_.optimizer(), specs_, {}, gradients);
  PADDLE_TRY_STATUS(check_finite(gradients));
  PADDLE_TRY_STATUS(give_up_save());
  PADDLE_TRY_STATUS(noted(push_rows(samples, cost, gradients)));
  is_tested_ = false;
  state_.forget_loaded();
  return JsonObject().add("batch", batch_).add("stop", client_->stop_asked());
}

Status Training::push_rows(std::uint64_t samples, double cost, Gradients& gradients) {
  // A trainer's own copy may have pushed its rows since the pull, and needs them once more.
  if (strategy::pushes_moves(parameters_.sparse_strategy())) {
    PADDLE_TRY_STATUS(client_->pull_rows(gradients));
  }
  // INVARIANT: the counts and the push are kept before the push is sent.
  ++batch_;
  const bool is_counted = batch_ <= batches_counted_;
  const trainer::Score score{samples, cost, {}};
  if (!is_counted) {
    counts_.score.add(score);
    batches_counted_ = batch_;
  }
  if (kept_) {
    kept_->forget_push();
    kept_->keep({pass_, batch_}, score, is_counted ? nullptr : &counts_, gradients);
  }
  return client_->push(samples, cost, {}, gradients);
}

// Ends of passes, and snapshots.

Result<JsonObject> Training::finish_pass() {
  PADDLE_TRY_STATUS(check_joined());
  if (is_paused_) return Error{Errc::kUsage, "the pass is paused: the next request is save"};
  const bool was_paused = passed_of(Barrier::What::kFinish).value_or(0) > 0;
  client::PassTotals totals;
  totals.paused = was_paused;
  if (!was_paused) {
    PADDLE_TRY_STATUS(give_up_save());
    if (std::exchange(repeats_end_, false)) client_->repeat_end(client::PassEnd::kFinish);
    mark(Barrier::What::kFinish);
    PADDLE_TRY(totals, noted(client_->finish_pass({})));
  }
  is_paused_ = totals.paused;
  is_tested_ = false;
  if (!totals.paused) {
    pass_ = client_->progress().passes;
    batch_ = batches_counted_ = 0;
    counts_ = {};
  }
  JsonObject tables;
  for (const auto& [parameter, table] : totals.tables) {
    tables.add(tables_[parameter].name, JsonObject()
                                            .add("rows", table.rows)
                                            .add("bytes", table.bytes)
                                            .add("payload_bytes", table.payload_bytes)
                                            .add("candidates", table.candidates)
                                            .add("expired", table.expired)
                                            .add("evicted", table.evicted)
                                            .add("shrunk", table.shrunk));
  }
  return JsonObject()
      .add("pass", pass_)
      .add("samples", totals.samples)
      .add("cost", totals.cost)
      .add("tables", tables)
      .add("paused", totals.paused);
}

// Calls at which trainers meet within a pass. A trainer that is lost in one of them comes back to
// the position of its last push, where its program makes the call again. A program that decides
// otherwise this time passes the barriers, for which the others wait, without the call.

void Training::mark(Barrier::What what) {
  begins_ = false;
  barrier_ = {what, {pass_, batch_}, client_->progress().pauses};
  if (kept_) kept_->mark_barrier(barrier_);
}

// The barriers of this call that an earlier process has passed, if this process begins there.
std::optional<std::uint64_t> Training::passed_of(Barrier::What what) const {
  const std::uint64_t pauses = client_->progress().pauses;
  const bool is_here = begins_ && barrier_.what == what && pauses >= barrier_.pauses &&
                       barrier_.at == trainer::BatchNumber{pass_, batch_};
  const std::uint64_t passed = pauses - barrier_.pauses;
  return is_here && passed <= 2 ? std::optional(passed) : std::nullopt;
}

// The state of the program was lost with its process, so the snapshot is not written.
Status Training::give_up_save() {
  const std::uint64_t passed = passed_of(Barrier::What::kSave).value_or(2);
  if (passed < 2 && saves_here()) {
    log_warning(
        "the process that was to save after batch {} of {} was lost: no snapshot of this "
        "place",
        batch_, pass_words(pass_));
  }
  for (std::uint64_t done = passed; done < 2; ++done) {
    PADDLE_TRY(const client::PassTotals totals, barrier());
  }
  begins_ = false;
  return {};
}

bool Training::saves_here() const {
  return options_.trainer.trainer_id == 0 && !options_.trainer.save_dir.empty();
}

// A pause in a pass in which nothing is pushed ends when every trainer asks for it.
Result<client::PassTotals> Training::barrier() {
  is_tested_ = false;
  return noted(client_->pause_pass({}));
}

Result<JsonObject> Training::save() {
  PADDLE_TRY_STATUS(check_joined());
  std::string path;
  const bool is_within = is_paused_ || batch_ > 0 || pass_ == 0;
  if (!repeats_end_) {  // otherwise an earlier process has saved it: the pass has ended since
    PADDLE_TRY_STATUS(is_within ? save_within_pass(path) : save_between_passes(path));
  }
  (void)state_.take();
  return JsonObject().add("path", std::string_view(path)).add("within_pass", is_within);
}

// INVARIANT: nothing is pushed during a save: the second barrier ends it. A failed save passes the
// barrier, too, since the others wait there.
Status Training::save_within_pass(std::string& path) {
  const std::uint64_t passed = passed_of(barrier_.what).value_or(0);
  if (!is_paused_ && passed == 0) {
    mark(Barrier::What::kSave);
    PADDLE_TRY(const client::PassTotals totals, barrier());
  }
  is_paused_ = true;
  Status written;
  if (saves_here()) {
    path = trainer::stop_directory(options_.trainer.save_dir, static_cast<std::uint32_t>(pass_),
                                   batch_);
    // A copy, because deltas that follow are not based on it.
    if (passed < 2) {
      log_info("Saving parameters to {}", path);
      written = write([&](client::SnapshotClient& to) { return to.save_copy(path); });
    }
  }
  if (passed < 2) {
    PADDLE_TRY(const client::PassTotals totals, barrier());
  }
  is_paused_ = begins_ = false;
  return written;
}

Status Training::save_between_passes(std::string& path) {
  const bool has_passed = begins_ && client_->progress().pauses > 0;
  begins_ = false;
  const auto finished = static_cast<std::uint32_t>(pass_ - 1);
  Status written;
  if (saves_here()) {
    path = trainer::pass_directory(options_.trainer.save_dir, finished);
    // A shard that has passed the barrier after a save is further than the end of the pass.
    const bool was_saved = has_passed || furthest_ > client::TrainerPosition{pass_, 0, 0};
    if (!was_saved) written = write_pass(path, finished);
  }
  if (has_passed) return {};  // an earlier process has saved it with the others
  PADDLE_TRY(const client::PassTotals totals, barrier());
  // Trainers without rounds may have begun the next pass: their save has a second barrier.
  if (totals.samples > 0) {
    PADDLE_TRY(const client::PassTotals closed, barrier());
  }
  return written;
}

// Saves on trainer 0, with the state that was added. `save` does it.
template <class Save>
Status Training::write(const Save& save) {
  PADDLE_TRY_STATUS(noted(client_->announce_busy("saving")));
  auto files = std::make_shared<std::vector<snapshot::ModelFile>>();
  files->push_back({"model/job.toml", job_text_});
  if (auto state = state_.take()) files->push_back({snapshot::kStateFile, *std::move(state)});
  client::SnapshotClient& snapshots = client_->snapshots();
  snapshots.describe(std::move(files));
  Status saved = save(snapshots);
  snapshots.describe(nullptr);
  if (!saved && saved.error().code == Errc::kUnreachable) return noted(std::move(saved));
  return saved;
}

Status Training::write_pass(const std::string& directory, std::uint32_t pass) {
  Status saved = write([&](client::SnapshotClient& snapshots) -> Status {
    PADDLE_TRY_STATUS(series_->save(snapshots, directory, pass + 1 == job_.train.passes));
    return {};
  });
  if (!saved) series_->forget_base();
  if (!saved || job_.train.snapshots_kept == 0) return saved;
  return snapshot::keep_newest(options_.trainer.save_dir, pass, job_.train.snapshots_kept);
}

// The rest.

Result<JsonObject> Training::share(const std::string& pattern) const {
  const trainer::TrainOptions& options = options_.trainer;
  const std::string& files = pattern.empty() ? job_.data.train : pattern;
  if (files.empty()) {
    return Error{Errc::kUsage, "the job has no [data] train", "give a pattern: \"data/*.csv\""};
  }
  PADDLE_TRY(const config::DataShare share,
             data::find_share(job_.data, config::folder_of(options.config), files,
                              options.trainer_id, options.num_gradient_servers));
  JsonArray names;
  for (const std::string& file : share.files) names.add(file);
  return JsonObject().add("files", names).add("records_split", share.records_split);
}

Result<JsonObject> Training::leave() {
  PADDLE_TRY_STATUS(check_joined());
  kept_ ? kept_->begin_leave() : trainer::ReplayLog::note_leaving(options_.memory, true);
  PADDLE_TRY_STATUS(noted(client_->leave()));
  has_left_ = true;
  heartbeats_.reset();
  return JsonObject();
}

Result<JsonObject> Training::abandon(const Error& why) {
  const auto is_broken_off = [this] {
    const std::scoped_lock lock(mutex_);
    return broken_off_.has_value();
  };
  if (!client_ || has_left_ || !is_broken_off()) PADDLE_TRY_STATUS(check_joined());
  client_->abandon(why);
  has_left_ = true;
  heartbeats_.reset();
  return JsonObject();
}

void Training::ask_to_stop() {
  const std::scoped_lock lock(mutex_);
  is_stop_asked_ = true;
  if (client_) client_->ask_to_stop();
}

void Training::interrupt(const Error& why) {
  const std::scoped_lock lock(mutex_);
  if (!interrupted_) interrupted_ = why;
  if (client_) client_->interrupt(why);
}

void Training::break_off(const Error& why) {
  const std::scoped_lock lock(mutex_);
  if (!broken_off_) broken_off_ = why;
  if (client_) client_->break_off(why);
}

std::string Training::waiting() const {
  const std::scoped_lock lock(mutex_);
  return waiting_;
}

}  // namespace paddle::sidecar
