// Loading of a snapshot directory into the shards.
#include <algorithm>

#include <fmt/format.h>

#include "engine/client/shard_client.h"
#include "engine/optim/optimizer.h"
#include "engine/parameter/parameter_set.h"
#include "engine/parameter/partition.h"
#include "engine/parameter/row_notes.h"
#include "engine/snapshot/source/snapshot_source.h"

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
        source_(set_, reader),
        state_width_(optim::state_width(set_.optimizer())) {}

  Status run(bool resumes);

 private:
  Status load_dense(std::uint32_t parameter);
  Status put_dense(std::size_t shard, const DensePiece& piece, std::uint32_t plane,
                   std::span<const float> from, std::uint64_t update_count);
  Status load_rows(std::uint32_t parameter);
  Status add_row(const wire::ParameterSpec& spec, const snapshot::SparseRow& row, RowChunk& chunk);
  Status flush(std::uint32_t parameter, std::size_t shard, RowChunk& chunk);

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
  PADDLE_TRY(const parameter::RowMarks marks, source_.append(spec, row, chunk.values, chunk.state));
  chunk.ids.push_back(row.id);
  chunk.marks.push_back(marks.pack());
  if (spec.table().has_shrink()) chunk.scores.push_back(row.score);
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
