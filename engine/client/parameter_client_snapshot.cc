// Snapshots through the lanes of trainer 0: dense parameters whole, sparse tables in chunks of
// bounded size.
#include <algorithm>

#include <fmt/format.h>

#include "base/log.h"
#include "engine/client/parameter_client_impl.h"
#include "engine/optim/model_average.h"
#include "engine/optim/optimizer.h"
#include "engine/parameter/parameter_set.h"
#include "engine/parameter/partition.h"
#include "engine/parameter/row_marks.h"
#include "engine/snapshot/files.h"

namespace paddle::client {
namespace {

constexpr std::uint64_t kChunkBytes = 8ULL << 20U;

// Rows on their way to one shard, laid out as PutRows wants them.
struct RowChunk {
  std::vector<std::uint64_t> ids;
  std::vector<std::uint64_t> marks;
  std::vector<float> values;
  std::vector<float> state;
  std::vector<parameter::RowScore> scores;

  std::uint64_t bytes() const {
    return (ids.size() + marks.size()) * sizeof(std::uint64_t) +
           (values.size() + state.size()) * sizeof(float) +
           scores.size() * sizeof(parameter::RowScore);
  }
  Bytes tail() const {
    Bytes bytes;
    append_bytes(bytes, std::span(ids));
    append_bytes(bytes, std::span(marks));
    append_bytes(bytes, std::span(values));
    append_bytes(bytes, std::span(state));
    append_bytes(bytes, std::span(scores));
    return bytes;
  }
};

template <class T>
std::vector<T> take(ByteSpan& from, std::uint64_t count) {
  std::vector<T> values(count);
  if (count > 0) std::memcpy(values.data(), from.data(), count * sizeof(T));
  from = from.subspan(count * sizeof(T));
  return values;
}

// From what a snapshot holds to what a shard holds; without its state, to a first update.
void bring_state(const wire::Optimizer& optimizer, const wire::ParameterSpec& spec, bool with_state,
                 std::span<float> value, std::span<float> state) {
  if (!with_state) return optim::UpdateRule(optimizer, spec).start(value, state);
  if (optim::has_average(optimizer)) optim::swap_average(value, state);
}

}  // namespace

Status ParameterClientImpl::load(const std::string& directory, bool goes_on) {
  PADDLE_TRY(const auto reader, snapshot::SnapshotReader::open(directory));
  const snapshot::SnapshotInfo& info = reader.info();
  const wire::ParameterSet& set = options_.parameters;
  const auto saved = reader.parameters();
  const bool with_state = optim::same_state(info.optimizer, set.optimizer());
  if (!with_state) {
    log_warning(
        "snapshot {} was trained with {}, this job uses {} or other options of it: its optimizer "
        "state starts anew",
        directory, info.optimizer.method(), set.optimizer().method());
  }
  for (int i = 0; i < set.parameters_size(); ++i) {
    const auto& spec = set.parameters(i);
    const auto found = std::find_if(saved.begin(), saved.end(), [&](const auto& candidate) {
      return candidate.name() == spec.name();
    });
    if (found == saved.end() || found->sparse() != spec.sparse() ||
        parameter::row_width(*found) != parameter::row_width(spec) ||
        (!spec.sparse() && parameter::element_count(*found) != parameter::element_count(spec))) {
      return Error{Errc::kData,
                   fmt::format("snapshot {}: parameter '{}' is {}", directory, spec.name(),
                               found == saved.end() ? "missing" : "of another shape"),
                   "load a snapshot of the same network"};
    }
    if (spec.table().has_shrink() && !found->table().has_shrink()) {
      return Error{Errc::kData,
                   fmt::format("snapshot {}: table '{}' has no shows and clicks, which 'shrink' "
                               "goes by",
                               directory, spec.name()),
                   "train on without shrink, or start anew"};
    }
  }
  wire::LoadBegin begin;
  begin.set_step(info.step);
  begin.set_passes_finished(info.pass);
  begin.set_samples(info.samples);
  if (info.trainer_cursors.size() == set.num_trainers()) {
    for (const std::uint64_t cursor : info.trainer_cursors) begin.add_cursors(cursor);
  }
  if (goes_on && !info.pass_batches.empty()) {
    if (info.pass_batches.size() != set.num_trainers()) {
      return Error{
          Errc::kUsage,
          fmt::format("snapshot {} is from the middle of pass {}, which {} trainers shared",
                      directory, info.pass, info.pass_batches.size()),
          fmt::format("go on with {} trainers", info.pass_batches.size())};
    }
    for (const std::uint64_t batches : info.pass_batches) begin.add_pass_batches(batches);
  }
  PADDLE_TRY_STATUS(ask_all(FrameType::kLoadBegin, begin, FrameType::kPosition,
                            [](ClientLanes&, std::size_t, const Frame&) { return Status(); }));
  for (int i = 0; i < set.parameters_size(); ++i) {
    const auto parameter = static_cast<std::uint32_t>(i);
    PADDLE_TRY_STATUS(set.parameters(i).sparse() ? load_rows(reader, parameter, with_state)
                                                 : load_dense(reader, parameter, with_state));
  }
  return {};
}

Status ParameterClientImpl::load_dense(const snapshot::SnapshotReader& reader,
                                       std::uint32_t parameter, bool with_state) {
  const wire::ParameterSet& set = options_.parameters;
  const auto& spec = set.parameters(static_cast<int>(parameter));
  std::vector<float> value;
  std::vector<float> state;
  std::uint64_t update_count = 0;
  PADDLE_TRY_STATUS(reader.read_dense(spec.name(), value, state, update_count));
  const std::uint64_t elements = parameter::element_count(spec);
  const std::size_t planes = optim::state_width(set.optimizer());
  if (value.size() != elements || (with_state && state.size() != planes * elements)) {
    return Error{Errc::kData, fmt::format("parameter '{}' has another size", spec.name()), ""};
  }
  state.resize(planes * elements);
  bring_state(set.optimizer(), spec, with_state, value, state);
  for (std::size_t shard = 0; shard < dense_.size(); ++shard) {
    for (const DensePiece& piece : plan_.pieces[shard]) {
      if (piece.parameter != parameter) continue;
      for (std::size_t plane = 0; plane <= planes; ++plane) {
        const auto from =
            plane == 0 ? std::span<const float>(value)
                       : std::span<const float>(state).subspan((plane - 1) * elements, elements);
        for (std::uint64_t done = 0; done < piece.size;) {
          const std::uint64_t count = std::min(piece.size - done, kChunkBytes / sizeof(float));
          wire::PutDense put;
          put.set_offset(piece.offset + done);
          put.set_count(count);
          put.set_plane(static_cast<std::uint32_t>(plane));
          put.set_update_count(with_state ? update_count : 0);
          Bytes tail;
          append_bytes(tail, from.subspan(piece.begin + done, count));
          PADDLE_TRY_STATUS(
              dense_.exchange(shard, FrameType::kPutDense, put, std::move(tail), FrameType::kDone));
          done += count;
        }
      }
    }
  }
  return {};
}

Status ParameterClientImpl::load_rows(const snapshot::SnapshotReader& reader,
                                      std::uint32_t parameter, bool with_state) {
  const wire::ParameterSet& set = options_.parameters;
  const auto& spec = set.parameters(static_cast<int>(parameter));
  const std::uint64_t floats_per_row = width(parameter);
  const std::size_t state_width = optim::state_width(set.optimizer());
  const std::size_t state_floats = state_width * floats_per_row;
  std::vector<RowChunk> chunks(sparse_.size());
  const auto flush = [&](std::size_t shard) -> Status {
    RowChunk& chunk = chunks[shard];
    if (chunk.ids.empty()) return {};
    wire::PutRows put;
    put.set_parameter(parameter);
    put.set_count(chunk.ids.size());
    put.set_state_width(static_cast<std::uint32_t>(state_width));
    PADDLE_TRY_STATUS(
        sparse_.exchange(shard, FrameType::kPutRows, put, chunk.tail(), FrameType::kDone));
    chunk = {};
    return {};
  };
  const auto take_row = [&](const snapshot::SparseRow& row) -> Status {
    if (row.value.size() != floats_per_row || (with_state && row.state.size() != state_floats)) {
      return Error{Errc::kData,
                   fmt::format("row {} of table '{}' has another width", row.id, spec.name()), ""};
    }
    const std::size_t shard = parameter::sparse_shard(row.id, set.sparse_shards());
    RowChunk& chunk = chunks[shard];
    chunk.ids.push_back(row.id);
    parameter::RowMarks marks = parameter::RowMarks::unpack(row.marks);
    if (!with_state) marks.updates = 0;
    chunk.marks.push_back(marks.pack());
    chunk.values.insert(chunk.values.end(), row.value.begin(), row.value.end());
    if (with_state) chunk.state.insert(chunk.state.end(), row.state.begin(), row.state.end());
    chunk.state.resize(chunk.ids.size() * state_floats);
    if (spec.table().has_shrink()) chunk.scores.push_back(row.score);
    bring_state(set.optimizer(), spec, with_state, std::span(chunk.values).last(floats_per_row),
                std::span(chunk.state).last(state_floats));
    return chunk.bytes() >= kChunkBytes ? flush(shard) : Status();
  };
  PADDLE_TRY_STATUS(reader.read_rows(spec.name(), take_row));
  for (std::size_t shard = 0; shard < chunks.size(); ++shard) PADDLE_TRY_STATUS(flush(shard));
  return {};
}

Status ParameterClientImpl::save_snapshot(const std::string& directory) {
  PADDLE_TRY(auto writer, snapshot::SnapshotWriter::create(directory));
  return save(std::move(writer), false);
}

Status ParameterClientImpl::save_delta(const std::string& directory, const std::string& base) {
  PADDLE_CHECK(options_.parameters.delta_snapshots());
  PADDLE_TRY(auto known, snapshot::base_of(base));
  PADDLE_TRY(auto writer, snapshot::SnapshotWriter::create(directory, std::move(known)));
  return save(std::move(writer), true);
}

Status ParameterClientImpl::save(snapshot::SnapshotWriter writer, bool is_delta) {
  const wire::ParameterSet& set = options_.parameters;
  snapshot::SnapshotInfo info;
  ClientLanes& primary = dense_.size() > 0 ? dense_ : sparse_;
  // Ready is idempotent: its answer says where every trainer's lane stands.
  PADDLE_TRY(const Frame frame,
             primary.exchange(0, FrameType::kReady, wire::Ready(), {}, FrameType::kPosition));
  wire::Position position;
  PADDLE_TRY_STATUS(primary.parse(0, frame, position));
  info.optimizer = set.optimizer();
  info.pass = position.passes_finished();
  info.step = position.step();
  info.samples = position.samples();
  info.seed = set.seed();
  info.trainer_cursors.assign(position.cursors().begin(), position.cursors().end());
  // Trainers that no round holds back may have begun the next pass: that is no place to go on from.
  if (is_paused_ &&
      std::ranges::any_of(position.pass_batches(), [](std::uint64_t n) { return n > 0; })) {
    info.pass_batches.assign(position.pass_batches().begin(), position.pass_batches().end());
  }
  for (int i = 0; i < set.parameters_size(); ++i) {
    const auto parameter = static_cast<std::uint32_t>(i);
    PADDLE_TRY_STATUS(set.parameters(i).sparse() ? save_rows(writer, parameter, is_delta)
                                                 : save_dense(writer, parameter));
  }
  return writer.finish(info);
}

Status ParameterClientImpl::save_dense(snapshot::SnapshotWriter& writer, std::uint32_t parameter) {
  const wire::ParameterSet& set = options_.parameters;
  const auto& spec = set.parameters(static_cast<int>(parameter));
  const std::uint64_t elements = parameter::element_count(spec);
  const std::size_t planes = optim::state_width(set.optimizer());
  std::vector<float> value(elements);
  std::vector<float> state(elements * planes);
  std::uint64_t update_count = 0;
  for (std::size_t shard = 0; shard < dense_.size(); ++shard) {
    for (const DensePiece& piece : plan_.pieces[shard]) {
      if (piece.parameter != parameter) continue;
      for (std::size_t plane = 0; plane <= planes; ++plane) {
        std::uint64_t count = 0;
        PADDLE_TRY(const auto part, pull_range(shard, static_cast<std::uint32_t>(plane),
                                               piece.offset, piece.size, count));
        float* const to = plane == 0 ? value.data() : state.data() + (plane - 1) * elements;
        std::copy(part.begin(), part.end(), to + piece.begin);
        // Async blocks may differ when a lagged push was dropped on one port only.
        update_count = std::max(update_count, count);
      }
    }
  }
  if (optim::has_average(set.optimizer())) optim::swap_average(value, state);
  return writer.add_dense(spec, value, state, update_count);
}

std::uint64_t ParameterClientImpl::exported_bytes_per_row(std::uint32_t parameter) const {
  const wire::ParameterSet& set = options_.parameters;
  return 2 * sizeof(std::uint64_t) +
         width(parameter) * (1 + optim::state_width(set.optimizer())) * sizeof(float) +
         (set.parameters(static_cast<int>(parameter)).table().has_shrink()
              ? sizeof(parameter::RowScore)
              : 0);
}

Status ParameterClientImpl::save_rows(snapshot::SnapshotWriter& writer, std::uint32_t parameter,
                                      bool is_delta) {
  const wire::ParameterSet& set = options_.parameters;
  const auto& spec = set.parameters(static_cast<int>(parameter));
  const std::size_t state_width = optim::state_width(set.optimizer());
  PADDLE_TRY_STATUS(writer.begin_sparse(spec, static_cast<std::uint32_t>(state_width)));
  for (std::size_t shard = 0; shard < sparse_.size(); ++shard) {
    wire::ExportRows ask;
    ask.set_parameter(parameter);
    ask.set_rows_max(std::max<std::uint64_t>(1, kChunkBytes / exported_bytes_per_row(parameter)));
    if (set.delta_snapshots()) ask.set_mode(is_delta ? wire::EXPORT_CHANGED : wire::EXPORT_BASE);
    PADDLE_TRY_STATUS(save_rows_of(writer, shard, ask));
    ask.set_mode(wire::EXPORT_REMOVED);
    if (is_delta) PADDLE_TRY_STATUS(save_removed_of(writer, shard, ask));
    const auto waits = [](const auto& policy) { return policy.entry_count() > 1; };
    if (!waits(spec.table()) && std::ranges::none_of(spec.table().entry(), waits)) continue;
    ask.set_mode(wire::EXPORT_CANDIDATES);
    PADDLE_TRY_STATUS(save_rows_of(writer, shard, ask));
  }
  return writer.end_sparse();
}

Status ParameterClientImpl::save_rows_of(snapshot::SnapshotWriter& writer, std::size_t shard,
                                         wire::ExportRows ask) {
  const std::uint64_t floats_per_row = width(ask.parameter());
  const std::size_t state_width = optim::state_width(options_.parameters.optimizer());
  const bool has_scores =
      options_.parameters.parameters(static_cast<int>(ask.parameter())).table().has_shrink();
  const std::uint64_t row_bytes = exported_bytes_per_row(ask.parameter());
  while (true) {
    PADDLE_TRY(const Frame frame,
               sparse_.exchange(shard, FrameType::kExportRows, ask, {}, FrameType::kExportedRows));
    wire::ExportedRows exported;
    PADDLE_TRY_STATUS(sparse_.parse(shard, frame, exported));
    if (exported.state_width() != state_width || frame.tail.size() % row_bytes != 0 ||
        frame.tail.size() / row_bytes != exported.count()) {
      return sparse_.malformed(shard, "tail");
    }
    ByteSpan tail = frame.tail;
    const auto ids = take<std::uint64_t>(tail, exported.count());
    const auto marks = take<std::uint64_t>(tail, exported.count());
    ByteSpan values = tail.first(exported.count() * floats_per_row * sizeof(float));
    ByteSpan state = tail.subspan(values.size(), values.size() * state_width);
    tail = tail.subspan(values.size() + state.size());
    const auto scores = take<parameter::RowScore>(tail, has_scores ? exported.count() : 0);
    std::vector<snapshot::SparseRow> rows;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      rows.push_back({ids[i], marks[i], take<float>(values, floats_per_row),
                      take<float>(state, state_width * floats_per_row),
                      has_scores ? scores[i] : parameter::RowScore()});
      if (optim::has_average(options_.parameters.optimizer())) {
        optim::swap_average(rows.back().value, rows.back().state);
      }
    }
    PADDLE_TRY_STATUS(writer.add_rows(rows));
    if (exported.next_cursor() == 0) return {};
    if (exported.next_cursor() <= ask.cursor()) return sparse_.malformed(shard, "cursor");
    ask.set_cursor(exported.next_cursor());
  }
}

Status ParameterClientImpl::save_removed_of(snapshot::SnapshotWriter& writer, std::size_t shard,
                                            wire::ExportRows ask) {
  ask.set_rows_max(kChunkBytes / sizeof(std::uint64_t));
  while (true) {
    PADDLE_TRY(const Frame frame,
               sparse_.exchange(shard, FrameType::kExportRows, ask, {}, FrameType::kExportedRows));
    wire::ExportedRows exported;
    PADDLE_TRY_STATUS(sparse_.parse(shard, frame, exported));
    if (frame.tail.size() % sizeof(std::uint64_t) != 0 ||
        frame.tail.size() / sizeof(std::uint64_t) != exported.count()) {
      return sparse_.malformed(shard, "tail");
    }
    ByteSpan tail = frame.tail;
    PADDLE_TRY_STATUS(writer.add_removed(take<std::uint64_t>(tail, exported.count())));
    if (exported.next_cursor() == 0) return {};
    if (exported.next_cursor() <= ask.cursor()) return sparse_.malformed(shard, "cursor");
    ask.set_cursor(exported.next_cursor());
  }
}

}  // namespace paddle::client
