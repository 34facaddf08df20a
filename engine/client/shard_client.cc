#include "engine/client/shard_client.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "engine/math/optimizer.h"
#include "engine/snapshot/reader.h"
#include "engine/snapshot/snapshot_source.h"
#include "engine/snapshot/writer.h"
#include "engine/table/parameter_set.h"
#include "engine/table/partition.h"
#include "engine/table/row_form.h"

namespace paddle::client {

Status ShardClient::settle() {
  if (rows_) PADDLE_TRY_STATUS(rows_->settle());
  return dense_ ? dense_->settle() : Status();
}

Status ShardClient::pull_dense(std::span<DenseParameter> parameters) {
  PADDLE_TRY_STATUS(settle());
  return dense_ ? dense_->pull(parameters) : shards_->pull(parameters);
}

Status ShardClient::pull_rows(std::span<SparseRows> rows) {
  return rows_ ? rows_->pull(rows) : shards_->pull(rows);
}

Status ShardClient::pull_averages(std::span<DenseParameter> dense, std::span<SparseRows> rows) {
  PADDLE_TRY_STATUS(settle());
  return shards_->pull_averages(dense, rows);
}

Status ShardClient::ready() {
  PADDLE_TRY_STATUS(shards_->ready());
  is_behind_ = shards_->is_behind();
  return {};
}

Status ShardClient::push(std::uint64_t num_samples, double cost_sum,
                         std::span<DenseParameter> dense, std::span<SparseRows> sparse) {
  const PushTotals totals{1, num_samples, cost_sum};
  if (!dense_ && !rows_) {
    Status pushed = shards_->push(totals, dense, sparse);
    is_behind_ = shards_->is_behind();
    return pushed;
  }
  // Pushes without a path come last: they may wait for other trainers.
  if (rows_) PADDLE_TRY_STATUS(rows_->push(totals, sparse));
  PADDLE_TRY_STATUS(dense_ ? dense_->push(totals, dense) : shards_->push(totals, dense));
  if (!rows_) PADDLE_TRY_STATUS(shards_->push(totals, sparse));
  if (!is_behind_) return {};
  // Some lanes are further than the trainer, and a push that merges several batches could not be
  // left out there. So push the batches that the paths hold back.
  PADDLE_TRY_STATUS(push_paths(PassEnd::kPause));
  is_behind_ = shards_->is_behind();
  return {};
}

Status ShardClient::repeat_push(std::uint64_t batch, std::uint64_t num_samples, double cost_sum,
                                std::span<DenseParameter> dense, std::span<SparseRows> sparse) {
  if (dense_ && rows_) return {};
  const JobProgress now = shards_->progress();
  PADDLE_TRY_STATUS(shards_->repeat_push(
      {now.passes, now.pauses, batch}, {1, num_samples, cost_sum},
      dense_ ? std::nullopt : std::optional(dense),
      rows_ ? std::nullopt : std::optional(std::span<const SparseRows>(sparse))));
  is_behind_ = shards_->is_behind();
  return {};
}

Status ShardClient::push_paths(PassEnd end) {
  if (rows_) PADDLE_TRY_STATUS(rows_->end_pass(end));
  return dense_ ? dense_->end_pass(end) : Status();
}

Status ShardClient::take_part(const std::function<Status()>& await) {
  if (!dense_ || !dense_->talks_to_trainers()) return await();
  std::atomic<bool> has_lost_trainer = false;
  Status took_part;
  std::thread beside([&] {
    took_part = dense_->take_part();
    if (took_part) return;
    has_lost_trainer = true;
    shards_->interrupt(took_part.error());
  });
  Status answered = await();
  if (!answered && !has_lost_trainer) dense_->interrupt(answered.error());
  beside.join();
  return answered || has_lost_trainer ? took_part : answered;
}

Result<PassTotals> ShardClient::end_pass(const Tally& tally, PassEnd end) {
  PADDLE_TRY_STATUS(push_paths(end));
  auto totals = shards_->end_pass(tally, end == PassEnd::kPause,
                                  [this](const auto& await) { return take_part(await); });
  is_behind_ = shards_->is_behind();
  return totals;
}

Status ShardClient::announce_busy(std::string_view activity) {
  PADDLE_TRY_STATUS(settle());
  if (dense_) dense_->announce_busy(activity);
  return shards_->ask_all(FrameType::kBusy, wire::Busy(), FrameType::kDone);
}

void ShardClient::interrupt(const Error& why) {
  shards_->interrupt(why);  // abandon() may wait for a path's thread that waits for a port
  const std::scoped_lock lock(ending_);
  if (dense_) dense_->interrupt(why);
}

void ShardClient::abandon(const Error& why) {
  {
    const std::scoped_lock lock(ending_);
    if (dense_) dense_->interrupt(why);
    // The paths' threads use the lanes, so they end first.
    dense_.reset();
    rows_.reset();
  }
  shards_->abandon(why);
}

// All trainers have passed the last barrier, and everything is saved: a pserver that has ended is
// not needed any more.
Status ShardClient::leave() {
  Status left = settle();
  if (left && dense_) left = dense_->leave();
  if (left) left = shards_->leave();
  if (left || left.error().code != Errc::kUnreachable) return left;
  log_info("the job is over: {}", left.error().message);
  return {};
}

// Loading a snapshot directory into the shards.

namespace {

constexpr std::uint64_t kChunkBytes = 8ULL << 20U;

class SnapshotLoad {
 public:
  SnapshotLoad(ShardChannels& shards, const snapshot::SnapshotReader& reader)
      : shards_(shards),
        set_(shards.parameters()),
        reader_(reader),
        source_(set_, reader),
        state_width_(optim::state_width(set_.optimizer())) {}

  Status run(bool resumes);

 private:
  Status load_dense(std::uint32_t parameter);
  Status put_dense(std::size_t shard, const DensePiece& piece, std::uint32_t plane,
                   std::span<const float> from, std::uint64_t update_count);
  Status load_rows(std::uint32_t parameter);
  // Sends rows to one shard, and empties `rows`.
  Status flush(std::uint32_t parameter, std::size_t shard, Bytes& rows);

  ShardChannels& shards_;
  const wire::ParameterSet& set_;
  const snapshot::SnapshotReader& reader_;
  snapshot::SnapshotSource source_;
  std::size_t state_width_;  // planes
};

Status SnapshotLoad::run(bool resumes) {
  PADDLE_TRY_STATUS(source_.check());
  PADDLE_TRY(const wire::LoadBegin place, source_.place(resumes));
  const wire::PassOrigins origins = source_.origins(resumes);
  Bytes tail;
  append_bytes(tail, std::span<const char>(origins.SerializeAsString()));
  PADDLE_TRY_STATUS(shards_.ask_all(
      FrameType::kLoadBegin, place, FrameType::kPosition,
      [](ClientLanes&, std::size_t, const Frame&) { return Status(); }, tail));
  for (int i = 0; i < set_.parameters_size(); ++i) {
    const auto parameter = static_cast<std::uint32_t>(i);
    PADDLE_TRY_STATUS(set_.parameters(i).sparse() ? load_rows(parameter) : load_dense(parameter));
  }
  return {};
}

Status SnapshotLoad::load_dense(std::uint32_t parameter) {
  PADDLE_TRY(const snapshot::SnapshotSource::Dense dense, source_.dense(parameter));
  const std::uint64_t elements = dense.value.size();
  const DenseLayout& layout = shards_.dense().layout();
  for (std::size_t shard = 0; shard < layout.pieces.size(); ++shard) {
    for (const DensePiece& piece : layout.pieces[shard]) {
      if (piece.parameter != parameter) continue;
      PADDLE_TRY_STATUS(put_dense(shard, piece, 0, dense.value, dense.update_count));
      for (std::size_t plane = 0; plane < state_width_; ++plane) {
        PADDLE_TRY_STATUS(put_dense(shard, piece, static_cast<std::uint32_t>(plane + 1),
                                    std::span(dense.state).subspan(plane * elements, elements),
                                    dense.update_count));
      }
    }
  }
  return {};
}

Status SnapshotLoad::put_dense(std::size_t shard, const DensePiece& piece, std::uint32_t plane,
                               std::span<const float> from, std::uint64_t update_count) {
  for (std::uint64_t done = 0; done < piece.size;) {
    const std::uint64_t count = std::min(piece.size - done, kChunkBytes / sizeof(float));
    wire::PutDense put;
    put.set_offset(piece.offset + done);
    put.set_count(count);
    put.set_plane(plane);
    put.set_update_count(update_count);
    Bytes tail;
    append_bytes(tail, from.subspan(piece.begin + done, count));
    PADDLE_TRY_STATUS(shards_.dense().lanes().exchange(shard, FrameType::kPutDense, put,
                                                       std::move(tail), FrameType::kDone));
    done += count;
  }
  return {};
}

Status SnapshotLoad::load_rows(std::uint32_t parameter) {
  const auto& spec = set_.parameters(static_cast<int>(parameter));
  std::vector<Bytes> chunks(set_.sparse_shards());
  const auto take_row = [&](const table::Row& row) -> Status {
    const std::size_t shard = parameter::sparse_shard(row.id, set_.sparse_shards());
    Bytes& chunk = chunks[shard];
    if (chunk.empty()) chunk.reserve(kChunkBytes + source_.form(spec).bytes());
    PADDLE_TRY_STATUS(source_.append(spec, row, chunk));
    return chunk.size() >= kChunkBytes ? flush(parameter, shard, chunk) : Status();
  };
  PADDLE_TRY_STATUS(reader_.read_rows(spec.name(), take_row));
  for (std::size_t shard = 0; shard < chunks.size(); ++shard) {
    PADDLE_TRY_STATUS(flush(parameter, shard, chunks[shard]));
  }
  return {};
}

Status SnapshotLoad::flush(std::uint32_t parameter, std::size_t shard, Bytes& rows) {
  if (rows.empty()) return {};
  const auto& spec = set_.parameters(static_cast<int>(parameter));
  wire::PutRows put;
  put.set_parameter(parameter);
  put.set_count(rows.size() / source_.form(spec).bytes());
  put.set_state_width(static_cast<std::uint32_t>(state_width_));
  PADDLE_TRY_STATUS(shards_.sparse().lanes().exchange(shard, FrameType::kPutRows, put,
                                                      std::exchange(rows, {}), FrameType::kDone));
  return {};
}

}  // namespace

Status ShardClient::load(const std::string& directory) {
  PADDLE_TRY(const auto reader, snapshot::SnapshotReader::open(directory));
  return SnapshotLoad(*shards_, reader).run(false);
}

Status ShardClient::resume(const snapshot::SnapshotReader& snapshot) {
  return SnapshotLoad(*shards_, snapshot).run(true);
}

// Saving the shards' parameters as a snapshot directory.

namespace {

constexpr std::uint64_t kExportBytes = 8ULL << 20U;

// Ready is idempotent: its answer contains the position of every trainer's lane.
Result<wire::Position> position_of_all(ShardChannels& shards) {
  ClientLanes& primary = shards.primary();
  PADDLE_TRY_STATUS(
      primary.exchange(0, FrameType::kReady, wire::Ready(), {}, FrameType::kPosition));
  return primary.at(0).answer<wire::Position>();
}

Result<snapshot::SnapshotInfo> snapshot_info(ShardChannels& shards) {
  PADDLE_TRY(const wire::Position position, position_of_all(shards));
  snapshot::SnapshotInfo result;
  result.optimizer = shards.parameters().optimizer();
  result.pass = position.passes_finished();
  result.step = position.step();
  result.samples = position.samples();
  result.seed = shards.parameters().seed();
  result.trainer_cursors.assign(position.cursors().begin(), position.cursors().end());
  // After a finished pass, trainers without rounds may have begun the next one already. Training
  // cannot continue from the middle of that one, so the snapshot omits these batches.
  if (shards.is_paused() &&
      std::ranges::any_of(position.pass_batches(), [](std::uint64_t n) { return n > 0; })) {
    result.pass_batches.assign(position.pass_batches().begin(), position.pass_batches().end());
  }
  return result;
}

// The export mode for a job that saves deltas.
wire::ExportMode mode_of(SavedRows kind) {
  switch (kind) {
    case SavedRows::kFull:
      return wire::EXPORT_BASE;
    case SavedRows::kDelta:
      return wire::EXPORT_CHANGED;
    case SavedRows::kCopy:
      break;
  }
  return wire::EXPORT_ROWS;
}

class SnapshotSave {
 public:
  SnapshotSave(ShardChannels& shards, snapshot::SnapshotWriter& writer, SavedRows kind)
      : shards_(shards),
        set_(shards.parameters()),
        writer_(writer),
        kind_(kind),
        state_width_(optim::state_width(set_.optimizer())),
        has_average_(optim::has_average(set_.optimizer())) {}

  Status run();

 private:
  Status save_dense(std::uint32_t parameter);
  Status save_table(std::uint32_t parameter);
  // One shard's rows or candidates, as the request asks.
  Status save_rows(std::size_t shard, const wire::ExportRows& ask);
  Status save_removed(std::size_t shard, wire::ExportRows ask);
  // Calls use(exported, tail) for each answer until the shard has no more rows.
  template <class Use>
  Status export_all(std::size_t shard, wire::ExportRows ask, const Use& use);
  table::RowForm form_of(const wire::ParameterSpec& spec) const {
    return table::RowForm::of(spec, state_width_);
  }

  ShardChannels& shards_;
  const wire::ParameterSet& set_;
  snapshot::SnapshotWriter& writer_;
  SavedRows kind_;
  std::size_t state_width_;  // planes
  bool has_average_;
};

Status SnapshotSave::run() {
  for (int i = 0; i < set_.parameters_size(); ++i) {
    const auto parameter = static_cast<std::uint32_t>(i);
    const bool is_sparse = set_.parameters(i).sparse();
    // With no dense ports, another client keeps the dense parameters.
    if (!is_sparse && set_.dense_shards() == 0) continue;
    PADDLE_TRY_STATUS(is_sparse ? save_table(parameter) : save_dense(parameter));
  }
  return {};
}

Status SnapshotSave::save_dense(std::uint32_t parameter) {
  const auto& spec = set_.parameters(static_cast<int>(parameter));
  const std::uint64_t elements = parameter::element_count(spec);
  std::vector<float> value(elements);
  std::vector<float> state(elements * state_width_);
  std::uint64_t update_count = 0;
  const DenseLayout& layout = shards_.dense().layout();
  for (std::size_t shard = 0; shard < layout.pieces.size(); ++shard) {
    for (const DensePiece& piece : layout.pieces[shard]) {
      if (piece.parameter != parameter) continue;
      for (std::size_t plane = 0; plane <= state_width_; ++plane) {
        std::uint64_t count = 0;
        PADDLE_TRY(const auto part, shards_.dense().read(shard, static_cast<std::uint32_t>(plane),
                                                         piece.offset, piece.size, count));
        float* const to = plane == 0 ? value.data() : state.data() + (plane - 1) * elements;
        std::copy(part.begin(), part.end(), to + piece.begin);
        // Async blocks may differ when a lagged push was dropped on one port only.
        update_count = std::max(update_count, count);
      }
    }
  }
  if (has_average_) optim::swap_average(value, state);
  return writer_.add_dense(spec, value, state, update_count);
}

Status SnapshotSave::save_table(std::uint32_t parameter) {
  const auto& spec = set_.parameters(static_cast<int>(parameter));
  const auto waits = [](const auto& policy) { return policy.entry_count() > 1; };
  const bool has_candidates =
      waits(spec.table()) || std::ranges::any_of(spec.table().entry(), waits);
  PADDLE_TRY_STATUS(writer_.begin_sparse(spec, static_cast<std::uint32_t>(state_width_)));
  for (std::size_t shard = 0; shard < set_.sparse_shards(); ++shard) {
    wire::ExportRows ask;
    ask.set_parameter(parameter);
    ask.set_rows_max(std::max<std::uint64_t>(1, kExportBytes / form_of(spec).bytes()));
    if (set_.delta_snapshots()) ask.set_mode(mode_of(kind_));
    PADDLE_TRY_STATUS(save_rows(shard, ask));
    if (kind_ == SavedRows::kDelta) PADDLE_TRY_STATUS(save_removed(shard, ask));
    if (!has_candidates) continue;
    ask.set_mode(wire::EXPORT_CANDIDATES);
    PADDLE_TRY_STATUS(save_rows(shard, ask));
  }
  return writer_.end_sparse();
}

template <class Use>
Status SnapshotSave::export_all(std::size_t shard, wire::ExportRows ask, const Use& use) {
  ClientLanes& lanes = shards_.sparse().lanes();
  while (true) {
    PADDLE_TRY(Frame frame,
               lanes.exchange(shard, FrameType::kExportRows, ask, {}, FrameType::kExportedRows));
    const auto& exported = lanes.at(shard).answer<wire::ExportedRows>();
    PADDLE_TRY_STATUS(use(exported, frame.tail));
    if (exported.next_cursor() == 0) return {};
    if (exported.next_cursor() <= ask.cursor()) return lanes.malformed(shard, "cursor");
    ask.set_cursor(exported.next_cursor());
  }
}

Status SnapshotSave::save_rows(std::size_t shard, const wire::ExportRows& ask) {
  const auto& spec = set_.parameters(static_cast<int>(ask.parameter()));
  const table::RowForm form = form_of(spec);
  return export_all(shard, ask, [&](const wire::ExportedRows& exported, Bytes& rows) -> Status {
    const ClientLanes& lanes = shards_.sparse().lanes();
    if (exported.state_width() != state_width_) {
      return lanes.malformed(shard, fmt::format("rows of '{}' (state width {}, here {})",
                                                spec.name(), exported.state_width(), state_width_));
    }
    if (const Status whole = form.check(rows, exported.count()); !whole) {
      return lanes.malformed(shard,
                             fmt::format("rows of '{}' ({})", spec.name(), whole.error().message));
    }
    for (std::size_t at = 0; has_average_ && at < rows.size(); at += form.bytes()) {
      const std::span<float> floats = form.floats_at(rows.data() + at);
      optim::swap_average(floats.first(form.width),
                          floats.subspan(form.width, form.state_floats()));
    }
    return writer_.add_rows(rows);
  });
}

Status SnapshotSave::save_removed(std::size_t shard, wire::ExportRows ask) {
  ask.set_mode(wire::EXPORT_REMOVED);
  ask.set_rows_max(kExportBytes / sizeof(std::uint64_t));
  return export_all(shard, ask, [&](const wire::ExportedRows& exported, Bytes& ids) -> Status {
    if (ids.size() % sizeof(std::uint64_t) != 0 ||
        ids.size() / sizeof(std::uint64_t) != exported.count()) {
      return shards_.sparse().lanes().malformed(
          shard, fmt::format("removed rows ({} ids in {} bytes)", exported.count(), ids.size()));
    }
    return writer_.add_removed(
        {reinterpret_cast<const std::uint64_t*>(ids.data()), ids.size() / sizeof(std::uint64_t)});
  });
}

}  // namespace

Result<snapshot::SnapshotInfo> ShardClient::info() {
  PADDLE_TRY_STATUS(settle());
  return snapshot_info(*shards_);
}

Status ShardClient::add_to(snapshot::SnapshotWriter& writer, SavedRows rows) {
  PADDLE_CHECK(rows != SavedRows::kDelta || shards_->parameters().delta_snapshots());
  PADDLE_TRY_STATUS(settle());
  return SnapshotSave(*shards_, writer, rows).run();
}

Result<std::uint64_t> ShardClient::leader_batches() {
  PADDLE_TRY_STATUS(settle());
  PADDLE_TRY(const wire::Position position, position_of_all(*shards_));
  if (position.pass_batches().empty()) return shards_->primary().malformed(0, "position");
  return position.pass_batches(0);
}

}  // namespace paddle::client
