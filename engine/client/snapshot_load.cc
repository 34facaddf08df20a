// Loading of a snapshot directory into the shards.
#include <algorithm>

#include <fmt/format.h>

#include "base/log.h"
#include "engine/client/shard_client.h"
#include "engine/optim/optimizer.h"
#include "engine/parameter/parameter_set.h"
#include "engine/parameter/partition.h"
#include "engine/parameter/row_notes.h"
#include "engine/snapshot/reader.h"

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

class SnapshotLoad {
 public:
  SnapshotLoad(ShardChannels& shards, const snapshot::SnapshotReader& reader)
      : shards_(shards),
        set_(shards.parameters()),
        reader_(reader),
        directory_(reader.directory()),
        with_state_(optim::same_state(reader.info().optimizer, set_.optimizer())),
        state_width_(optim::state_width(set_.optimizer())) {}

  Status run(bool resumes);

 private:
  Status check() const;
  Status begin(bool resumes);
  Status load_dense(std::uint32_t parameter);
  Status put_dense(std::size_t shard, const DensePiece& piece, std::uint32_t plane,
                   std::span<const float> from, std::uint64_t update_count);
  Status load_rows(std::uint32_t parameter);
  Status add_row(const wire::ParameterSpec& spec, const snapshot::SparseRow& row, RowChunk& chunk);
  Status flush(std::uint32_t parameter, std::size_t shard, RowChunk& chunk);
  // Turns values and state of a snapshot into those of a shard; without its state, into those of a
  // parameter that was never updated.
  void convert(const wire::ParameterSpec& spec, std::span<float> value,
               std::span<float> state) const;

  ShardChannels& shards_;
  const wire::ParameterSet& set_;
  const snapshot::SnapshotReader& reader_;
  const std::string& directory_;
  bool with_state_;
  std::size_t state_width_;  // planes
};

Status SnapshotLoad::run(bool resumes) {
  if (!with_state_) {
    log_warning(
        "snapshot {} was trained with {}, this job uses {} or other options of it: its optimizer "
        "state starts anew",
        directory_, reader_.info().optimizer.method(), set_.optimizer().method());
  }
  if (!reader_.is_bound()) {
    log_warning(
        "snapshot {} is of format 1, in which files of another snapshot go unnoticed; what is "
        "saved "
        "from now on is of format {}",
        directory_, snapshot::kSnapshotFormat);
  }
  PADDLE_TRY_STATUS(check());
  PADDLE_TRY_STATUS(begin(resumes));
  for (int i = 0; i < set_.parameters_size(); ++i) {
    const auto parameter = static_cast<std::uint32_t>(i);
    PADDLE_TRY_STATUS(set_.parameters(i).sparse() ? load_rows(parameter) : load_dense(parameter));
  }
  return {};
}

Status SnapshotLoad::check() const {
  const auto saved = reader_.parameters();
  for (const wire::ParameterSpec& spec : set_.parameters()) {
    const auto found = std::ranges::find(saved, spec.name(), &wire::ParameterSpec::name);
    if (found == saved.end() || found->sparse() != spec.sparse() ||
        parameter::row_width(*found) != parameter::row_width(spec) ||
        (!spec.sparse() && parameter::element_count(*found) != parameter::element_count(spec))) {
      return Error{Errc::kData,
                   fmt::format("snapshot {}: parameter '{}' is {}", directory_, spec.name(),
                               found == saved.end() ? "missing" : "of another shape"),
                   "load a snapshot of the same network"};
    }
    if (spec.table().has_shrink() && !found->table().has_shrink()) {
      return Error{Errc::kData,
                   fmt::format("snapshot {}: table '{}' has no shows and clicks, which 'shrink' "
                               "goes by",
                               directory_, spec.name()),
                   "train on without shrink, or start anew"};
    }
  }
  return {};
}

Status SnapshotLoad::begin(bool resumes) {
  const snapshot::SnapshotInfo& info = reader_.info();
  wire::LoadBegin begin;
  begin.set_step(info.step);
  // A job that only starts with the parameters counts its own passes.
  begin.set_passes_finished(resumes ? info.pass : 0);
  begin.set_samples(info.samples);
  if (info.trainer_cursors.size() == set_.num_trainers()) {
    for (const std::uint64_t cursor : info.trainer_cursors) begin.add_cursors(cursor);
  }
  if (resumes && !info.pass_batches.empty()) {
    if (info.pass_batches.size() != set_.num_trainers()) {
      return Error{
          Errc::kUsage,
          fmt::format("snapshot {} is from the middle of pass {}, which {} trainers shared",
                      directory_, info.pass, info.pass_batches.size()),
          fmt::format("go on with {} trainers", info.pass_batches.size())};
    }
    for (const std::uint64_t batches : info.pass_batches) begin.add_pass_batches(batches);
  }
  return shards_.ask_all(FrameType::kLoadBegin, begin, FrameType::kPosition);
}

void SnapshotLoad::convert(const wire::ParameterSpec& spec, std::span<float> value,
                           std::span<float> state) const {
  const wire::Optimizer& optimizer = set_.optimizer();
  if (!with_state_) return optim::UpdateRule(optimizer, spec).start(value, state);
  if (optim::has_average(optimizer)) optim::swap_average(value, state);
}

Status SnapshotLoad::load_dense(std::uint32_t parameter) {
  const auto& spec = set_.parameters(static_cast<int>(parameter));
  std::vector<float> value;
  std::vector<float> state;
  std::uint64_t update_count = 0;
  PADDLE_TRY_STATUS(reader_.read_dense(spec.name(), value, state, update_count));
  const std::uint64_t elements = parameter::element_count(spec);
  if (value.size() != elements || (with_state_ && state.size() != state_width_ * elements)) {
    return Error{Errc::kData, fmt::format("parameter '{}' has another size", spec.name())};
  }
  state.resize(state_width_ * elements);
  convert(spec, value, state);
  if (!with_state_) update_count = 0;
  const DenseLayout& layout = shards_.dense().layout();
  for (std::size_t shard = 0; shard < layout.pieces.size(); ++shard) {
    for (const DensePiece& piece : layout.pieces[shard]) {
      if (piece.parameter != parameter) continue;
      PADDLE_TRY_STATUS(put_dense(shard, piece, 0, value, update_count));
      for (std::size_t plane = 0; plane < state_width_; ++plane) {
        PADDLE_TRY_STATUS(put_dense(shard, piece, static_cast<std::uint32_t>(plane + 1),
                                    std::span(state).subspan(plane * elements, elements),
                                    update_count));
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
  std::vector<RowChunk> chunks(set_.sparse_shards());
  const auto take_row = [&](const snapshot::SparseRow& row) -> Status {
    const std::size_t shard = parameter::sparse_shard(row.id, set_.sparse_shards());
    PADDLE_TRY_STATUS(add_row(spec, row, chunks[shard]));
    return chunks[shard].bytes() >= kChunkBytes ? flush(parameter, shard, chunks[shard]) : Status();
  };
  PADDLE_TRY_STATUS(reader_.read_rows(spec.name(), take_row));
  for (std::size_t shard = 0; shard < chunks.size(); ++shard) {
    PADDLE_TRY_STATUS(flush(parameter, shard, chunks[shard]));
  }
  return {};
}

Status SnapshotLoad::add_row(const wire::ParameterSpec& spec, const snapshot::SparseRow& row,
                             RowChunk& chunk) {
  const std::uint64_t width = parameter::row_width(spec);
  const std::size_t state_floats = state_width_ * width;
  if (row.value.size() != width || (with_state_ && row.state.size() != state_floats)) {
    return Error{Errc::kData,
                 fmt::format("row {} of table '{}' has another width", row.id, spec.name())};
  }
  chunk.ids.push_back(row.id);
  parameter::RowMarks marks = parameter::RowMarks::unpack(row.marks);
  if (!with_state_) marks.updates = 0;
  chunk.marks.push_back(marks.pack());
  chunk.values.insert(chunk.values.end(), row.value.begin(), row.value.end());
  if (with_state_) chunk.state.insert(chunk.state.end(), row.state.begin(), row.state.end());
  chunk.state.resize(chunk.ids.size() * state_floats);
  if (spec.table().has_shrink()) chunk.scores.push_back(row.score);
  convert(spec, std::span(chunk.values).last(width), std::span(chunk.state).last(state_floats));
  return {};
}

Status SnapshotLoad::flush(std::uint32_t parameter, std::size_t shard, RowChunk& chunk) {
  if (chunk.ids.empty()) return {};
  wire::PutRows put;
  put.set_parameter(parameter);
  put.set_count(chunk.ids.size());
  put.set_state_width(static_cast<std::uint32_t>(state_width_));
  PADDLE_TRY_STATUS(shards_.sparse().lanes().exchange(shard, FrameType::kPutRows, put, chunk.tail(),
                                                      FrameType::kDone));
  chunk = {};
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

}  // namespace paddle::client
