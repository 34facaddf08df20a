#include "engine/pserver/savepoints.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "base/rng.h"
#include "base/text.h"
#include "engine/table/parameter_set.h"

namespace paddle::pserver {
namespace {

constexpr std::uint64_t kPartBytes = 1ULL << 20U;  // rows copied between two frames
// Parts copied between two ticks without a frame: trainers may be waiting for the savepoint. 480
// MB/s.
constexpr int kIdleParts = 48;
constexpr std::uint64_t kDensePartBytes = 8ULL << 20U;
constexpr std::uint64_t kBacklogMax = 64ULL << 20U;  // bytes copied that are not written yet
// Periods after which a new savepoint is announced although some shard has no whole savepoint.
constexpr int kPatiencePeriods = 6;
// Divides the period after a rollback, so that a job with frequent failures makes progress, too.
constexpr int kSooner = 4;
// So many savepoints that are newer than the last common one are deleted: other shards may lack
// them.
constexpr std::ptrdiff_t kUncommonMax = 8;
constexpr std::size_t kIndexBytes = sizeof(std::uint32_t);
// Added to the generation at each rollback; the bits below number the process.
constexpr std::uint64_t kRollback = 1ULL << 32U;

std::uint64_t fingerprint(const ShardOptions& options, const wire::ParameterSet& set) {
  return hash_combine(hash_combine(options.job_tag, stable_hash(set.SerializeAsString())),
                      2 * std::uint64_t{options.index} + (options.is_sparse ? 1 : 0));
}

}  // namespace

void Savepoints::open() {
  const ShardOptions& options = state_.options;
  const wire::ParameterSet& set = state_.parameters.set();
  if (!options.open_savepoints || set.snapshot_seconds() == 0 || !set.trainers_return()) return;
  auto store = options.open_savepoints(fingerprint(options, set));
  if (!store) {
    log_warning("savepoints are off: {}", store.error().message);
    return;
  }
  store_ = *std::move(store);
  // A pserver's first process has lost nothing: these savepoints belong to an earlier run of the
  // job.
  if (options.server_generation <= kFirstIncarnation && !forget_all()) return;
  period_ = std::chrono::seconds(set.snapshot_seconds());
  const auto has_rounds = [&](bool is_sparse) {
    const std::uint32_t shards = is_sparse ? set.sparse_shards() : set.dense_shards();
    return shards > 0 && options.make_policy(set, is_sparse)->has_rounds();
  };
  const bool in_rounds = state_.parameters.policy().has_rounds();
  is_leader_ = in_rounds && options.index == 0 && (!options.is_sparse || !has_rounds(false));
  const bool is_alone = set.dense_shards() == 0 || set.sparse_shards() == 0;
  savepoints_each_pass_ = !in_rounds || !(is_alone || (has_rounds(false) && has_rounds(true)));
  track();
  note_whole();
}

void Savepoints::track() {
  for (const auto& table : state_.parameters.tables()) {
    if (table) table->track_savepoints();
  }
}

void Savepoints::on_ready(bool went_back) {
  if (!store_) return;
  // Savepoints made before a job began anew are useless, and their numbers would collide with new
  // ones.
  if (!went_back && !forget_all()) return;
  // Trainers that joined again did not receive the announcement of a savepoint, and will not ask
  // for it.
  state_.savepoints.is_due = false;
  begun_at_.reset();
  wait_ = went_back ? period_ / kSooner : period_;
  note_whole();
  begin();
}

bool Savepoints::forget_all() {
  const Status forgotten = store_->forget_after(0);
  if (forgotten) return true;
  log_warning("savepoints are off: {}", forgotten.error().message);
  store_.reset();
  state_.savepoints.whole.clear();
  return false;
}

void Savepoints::on_update() {
  if (std::exchange(state_.savepoints.is_asked, false) && store_ && !is_under_way()) begin();
}

void Savepoints::on_pass_end() {
  if (!store_ || !savepoints_each_pass_) return;
  forget_old();
  begin();
}

// Deletes savepoints that are kEndedPasses passes old. After a rollback to such a savepoint the
// trainers would end its pass again, but other shards may be a pass further and may have forgotten
// its totals.
void Savepoints::forget_old() {
  const std::uint64_t passes = state_.progress.passes_finished - whole_passes_;
  if (state_.savepoints.whole.empty() || passes < PassEnd::kEndedPasses) return;
  const Status forgotten = store_->forget_after(0);
  log_warning("no savepoint was written for {} passes: a lost pserver resumes from a snapshot{}",
              passes, forgotten ? "" : "; " + forgotten.error().message);
  note_whole();
}

bool Savepoints::may_end_pass() const {
  if (!store_ || !savepoints_each_pass_ || store_->has_failed()) return true;
  return !is_under_way() && passes_ == state_.progress.passes_finished;
}

// Limits the savepoints that other shards lack: otherwise, if the disk of one shard fails for long,
// the disks of the others fill up.
void Savepoints::forget_uncommon() {
  if (!state_.parameters.policy().has_rounds()) return;
  const std::vector<std::uint64_t>& whole = state_.savepoints.whole;
  const std::uint64_t common = std::max(state_.savepoints.whole_everywhere, gone_back_to_);
  if (whole.end() - std::ranges::upper_bound(whole, common) < kUncommonMax) return;
  if (const Status forgotten = store_->forget_after(common); !forgotten) {
    log_warning("savepoints newer than {} cannot be removed: {}", common,
                forgotten.error().message);
  }
  note_whole();
}

void Savepoints::begin() {
  if (state_.savepoints.newest_whole() >= number()) return;  // nothing has changed since
  forget_uncommon();
  is_full_ = is_full_ || store_->has_failed() || state_.savepoints.newest_whole() != number_ ||
             changed_bytes_ >= full_bytes_;
  wait_ = period_;
  number_ = number();
  passes_ = state_.progress.passes_finished;
  begun_at_.reset();
  (is_full_ ? full_bytes_ : changed_bytes_) = 0;
  if (is_full_) changed_bytes_ = 0;
  store_->begin(number_, is_full_);
  // INVARIANT: values and last_applied are saved together. All of this is done between two updates;
  // a table whose rows are copied later copies a row before an update changes it.
  const std::string text = state().SerializeAsString();
  Bytes record;
  append_bytes(record, std::span<const char>(text));
  store_->add(static_cast<std::uint32_t>(Record::kState), std::move(record));
  is_copying_ = true;
  table_ = 0;
  add_dense();
  for (const auto& table : state_.parameters.tables()) {
    if (table) table->begin_savepoint(is_full_);
  }
}

void Savepoints::add_dense() {
  const table::DenseTable* const dense = state_.parameters.dense();
  if (dense == nullptr) return;
  for (std::uint64_t from = 0; from < dense->size();) {
    table::DenseTable::SavepointPart part = dense->take_savepoint(from, kDensePartBytes);
    store_->add(static_cast<std::uint32_t>(Record::kDense), std::move(part.bytes));
    from = part.next;
  }
}

void Savepoints::copy() {
  is_idle_ = false;
  copy_part();
}

void Savepoints::copy_part() {
  if (!is_copying_ || store_->backlog() > kBacklogMax || copy_rows()) return;
  store_->end();
  for (const auto& table : state_.parameters.tables()) {
    if (table) table->end_savepoint();
  }
  is_copying_ = false;
  is_unwritten_ = true;
}

bool Savepoints::copy_rows() {
  const SparseTables& tables = state_.parameters.tables();
  for (; table_ < tables.size(); ++table_) {
    if (!tables[table_]) continue;
    const std::optional<Bytes> rows = tables[table_]->take_savepoint(kPartBytes);
    if (rows && !rows->empty()) add_rows(static_cast<std::uint32_t>(table_), *rows);
    if (rows) return true;
  }
  return false;
}

void Savepoints::add_rows(std::uint32_t parameter, ByteSpan rows) {
  Bytes record;
  record.reserve(kIndexBytes + rows.size());
  append_bytes(record, std::span<const std::uint32_t>(&parameter, 1));
  append_bytes(record, rows);
  (is_full_ ? full_bytes_ : changed_bytes_) += record.size();
  store_->add(static_cast<std::uint32_t>(Record::kTable), std::move(record));
}

void Savepoints::note_whole() {
  std::vector<std::uint64_t> whole = store_->whole();
  if (is_unwritten_ && store_->has_failed()) {
    is_unwritten_ = false;
    is_full_ = true;
  }
  if (whole == state_.savepoints.whole) return;
  state_.savepoints.whole = std::move(whole);
  if (state_.savepoints.newest_whole() == number_) {
    is_unwritten_ = false;
    is_full_ = false;
    whole_passes_ = passes_;
  }
}

void Savepoints::on_tick(TimePoint now) {
  if (!store_) return;
  const int parts = std::exchange(is_idle_, true) ? kIdleParts : 1;
  for (int part = 0; part < parts && is_copying_; ++part) copy_part();
  note_whole();
  const bool in_rounds = state_.parameters.policy().has_rounds();
  const std::uint64_t needed =
      in_rounds ? state_.savepoints.whole_everywhere : state_.savepoints.newest_whole();
  if (std::exchange(needed_, needed) != needed) store_->forget_before(needed);
  if (!begun_at_) begun_at_ = now;
  if (!state_.progress.ready || is_under_way()) return;
  if (now - *begun_at_ < wait_) return;
  if (!in_rounds) return begin();
  const bool is_everywhere = state_.savepoints.whole_everywhere >= number_;
  if (!is_leader_ || !(is_everywhere || now - *begun_at_ >= kPatiencePeriods * period_)) return;
  state_.savepoints.is_due = true;
  begun_at_ = now;
}

wire::SavepointState Savepoints::state() const {
  const ShardProgress& progress = state_.progress;
  wire::SavepointState savepoint;
  savepoint.set_step(progress.step);
  savepoint.set_updates(progress.updates);
  savepoint.set_passes_finished(progress.passes_finished);
  savepoint.set_passes_loaded(progress.passes_loaded);
  savepoint.set_pauses(progress.pauses);
  savepoint.set_samples(progress.samples);
  *savepoint.mutable_pass() = progress.pass;
  if (progress.origins.batches_size() > 0) *savepoint.mutable_origins() = progress.origins;
  for (const Trainer& trainer : state_.membership.trainers()) {
    wire::SavepointTrainer& to = *savepoint.add_trainers();
    to.set_last_applied(trainer.last_applied);
    to.set_clock(trainer.clock);
    to.set_left(trainer.left);
  }
  pass_end_.save(savepoint);
  return savepoint;
}

Status Savepoints::go_back(std::uint64_t savepoint) {
  is_copying_ = is_unwritten_ = false;  // whatever follows, the savepoint in progress is abandoned
  PADDLE_TRY_STATUS(store_->forget_after(savepoint));
  state_.parameters.clear_tables();
  track();
  wire::SavepointState state;
  PADDLE_TRY_STATUS(store_->read(savepoint, [&](std::uint32_t kind, ByteSpan payload) {
    return restore(static_cast<Record>(kind), payload, state);
  }));
  for (const auto& table : state_.parameters.tables()) {
    if (table) PADDLE_TRY_STATUS(table->check_restored());
  }
  PADDLE_TRY_STATUS(restore_state(state));
  is_full_ = true;
  number_ = gone_back_to_ = savepoint;
  passes_ = whole_passes_ = state_.progress.passes_finished;
  state_.savepoints = {};
  note_whole();
  log_info("{} port {} was restored to its state after update {}, in {}",
           state_.options.is_sparse ? "sparse" : "dense", state_.options.index,
           state_.progress.step, pass_words(state_.progress.passes_finished));
  return {};
}

void Savepoints::begin_anew() {
  state_.parameters.begin_anew();
  if (store_) track();
  pass_end_.forget();
  passes_ = whole_passes_ = 0;
  ShardProgress anew;
  anew.generation = state_.progress.generation;
  anew.requests = state_.progress.requests;
  state_.progress = anew;
  for (Trainer& trainer : state_.membership.trainers()) {
    trainer.last_applied = trainer.clock = trainer.seen_updates = 0;
  }
}

Status Savepoints::restore(Record kind, ByteSpan payload, wire::SavepointState& state) {
  switch (kind) {
    case Record::kState:
      if (state.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) return {};
      break;
    case Record::kDense:
      if (state_.parameters.dense() == nullptr) break;
      return state_.parameters.dense()->restore_savepoint(payload);
    case Record::kTable:
      return restore_rows(payload);
  }
  return Error{Errc::kData,
               fmt::format("a record of kind {} cannot be read", static_cast<std::uint32_t>(kind))};
}

Status Savepoints::restore_rows(ByteSpan payload) {
  std::uint32_t parameter = 0;
  if (payload.size() >= kIndexBytes) std::memcpy(&parameter, payload.data(), kIndexBytes);
  table::SparseTable* const table = state_.parameters.table(parameter);
  if (payload.size() >= kIndexBytes && table)
    return table->restore_savepoint(payload.subspan(kIndexBytes));
  return Error{
      Errc::kData,
      fmt::format("the savepoint has rows of parameter {}, which is not a table of this port",
                  parameter)};
}

Status Savepoints::restore_state(const wire::SavepointState& savepoint) {
  auto& trainers = state_.membership.trainers();
  if (static_cast<std::size_t>(savepoint.trainers_size()) != trainers.size()) {
    return Error{Errc::kData, fmt::format("the savepoint is of a job with {} trainers",
                                          savepoint.trainers_size())};
  }
  const wire::PassOrigins& origins = savepoint.origins();
  for (const int places : {origins.batches_size(), origins.records_size(), origins.data_size()}) {
    if (places == 0 || static_cast<std::size_t>(places) == trainers.size()) continue;
    return Error{Errc::kData,
                 fmt::format("the savepoint has the pass origins of {} trainers", places)};
  }
  PADDLE_TRY_STATUS(pass_end_.restore(savepoint));
  ShardProgress& progress = state_.progress;
  progress = ShardProgress{.generation = progress.generation + kRollback,
                           .is_loading = true,
                           .went_back = true,
                           .step = savepoint.step(),
                           .updates = savepoint.updates(),
                           .requests = progress.requests + 1,
                           .passes_finished = savepoint.passes_finished(),
                           .passes_loaded = savepoint.passes_loaded(),
                           .pauses = savepoint.pauses(),
                           .samples = savepoint.samples(),
                           .pass = savepoint.pass(),
                           .origins = savepoint.origins()};
  for (Trainer& trainer : trainers) {
    const wire::SavepointTrainer& from = savepoint.trainers(static_cast<int>(trainer.id));
    trainer.last_applied = from.last_applied();
    trainer.clock = from.clock();
    trainer.left = from.left() && !trainer.connected;
    trainer.seen_updates = progress.updates;
    trainer.finished = trainer.pauses = trainer.is_busy = false;
    trainer.push.reset();
    trainer.tally = Tally();
  }
  return {};
}

}  // namespace paddle::pserver
