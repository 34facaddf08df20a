// The requests of a simulated trainer, and the answers to them.
#include "base/check.h"
#include "engine/math/optimizer.h"
#include "engine/table/partition.h"
#include "tests/sim/trainer.h"

namespace paddle::sim {
namespace {

constexpr std::uint64_t kRowsOfExport = 8;

std::span<const float> floats_of(const Frame& frame) {
  return {reinterpret_cast<const float*>(frame.tail.data()), frame.tail.size() / sizeof(float)};
}

Bytes bytes_from(std::span<const float> floats) {
  Bytes bytes;
  append_bytes(bytes, floats);
  return bytes;
}

}  // namespace

void Trainer::ask_of_recovery(std::uint32_t shard) {
  auto request = recovery_.request(shard);
  if (!request) return;
  std::visit([&](const auto& message) { ask(shard, request->type, message, request->tail); },
             request->message);
}

void Trainer::ask_load_begin(std::uint32_t shard) {
  const wire::Position& from = disk_.newest->position;
  wire::LoadBegin message;
  message.set_step(from.step());
  message.set_passes_finished(from.passes_finished());
  message.set_samples(from.samples());
  for (const std::uint64_t cursor : from.cursors()) message.add_cursors(cursor);
  ask(shard, FrameType::kLoadBegin, message);
}

void Trainer::ask_load(std::uint32_t shard) {
  const Snapshot& from = *disk_.newest;
  if (!model_.is_sparse(shard)) {
    const std::span<const float> planes(from.dense[shard]);
    const std::uint64_t size = model_.layout().sizes[shard];
    for (std::uint64_t begin = 0; begin < planes.size(); begin += size) {
      for (const client::DensePiece& piece : model_.layout().pieces[shard]) {
        wire::PutDense message;
        message.set_offset(piece.offset);
        message.set_count(piece.size);
        message.set_plane(static_cast<std::uint32_t>(begin / size));
        message.set_update_count(from.update_counts[shard]);
        ask(shard, FrameType::kPutDense, message,
            bytes_from(planes.subspan(begin + piece.offset, piece.size)));
      }
    }
    return;
  }
  for (const Snapshot::Rows& rows : from.rows[shard - model_.dense_shards()]) {
    wire::PutRows message;
    message.set_parameter(model_.rows_parameter());
    message.set_count(rows.count);
    message.set_state_width(rows.state_width);
    ask(shard, FrameType::kPutRows, message, rows.tail);
  }
}

void Trainer::ask_pull(std::uint32_t shard) {
  if (!model_.is_sparse(shard)) {
    wire::PullDense message;
    message.set_count(model_.layout().sizes[shard]);
    return ask(shard, FrameType::kPullDense, message);
  }
  const std::uint64_t row = model_.row_ids(shard)[model_.cell(id_, pass_, batch_)];
  wire::PullRows message;
  auto* const segment = message.add_segments();
  segment->set_parameter(model_.rows_parameter());
  segment->set_count(1);
  Bytes tail;
  append_bytes(tail, std::span(&row, 1));
  ask(shard, FrameType::kPullRows, message, std::move(tail));
}

// Last parts follow once the early ones of every port are stored.
void Trainer::ask_push(std::uint32_t shard, const Gradients& gradients, bool is_early) {
  if (is_early && options_.push_parts == 1) return;
  wire::PushPart part;
  part.set_part(is_early ? 0 : options_.push_parts - 1);
  part.set_parts(options_.push_parts);
  part.set_samples(gradients.samples);
  if (gradients.batches > 1) part.set_batches(gradients.batches);
  if (model_.in_rounds(shard)) client::note_savepoints(in_rounds_, part);
  if (model_.is_sparse(shard)) return ask_push_rows(shard, gradients, part);
  ask_push_dense(shard, gradients, part, is_early);
}

void Trainer::ask_push_dense(std::uint32_t shard, const Gradients& gradients, wire::PushPart part,
                             bool is_early) {
  std::vector<float> all;
  for (const client::DensePiece& piece : model_.layout().pieces[shard]) {
    const auto& gradient = gradients.dense[piece.parameter].gradient;
    const auto begin = gradient.begin() + static_cast<std::ptrdiff_t>(piece.begin);
    all.insert(all.end(), begin, begin + static_cast<std::ptrdiff_t>(piece.size));
  }
  // Two parts at most: the first third, and the rest.
  const std::size_t savepoint = options_.push_parts > 1 ? all.size() / 3 : 0;
  const std::span<const float> mine = is_early ? std::span<const float>(all).first(savepoint)
                                               : std::span<const float>(all).subspan(savepoint);
  wire::PushDense message;
  *message.mutable_part() = part;
  message.set_offset(is_early ? 0 : savepoint);
  message.set_count(mine.size());
  ask(shard, FrameType::kPushDense, message, bytes_from(mine));
}

void Trainer::ask_push_rows(std::uint32_t shard, const Gradients& gradients,
                            const wire::PushPart& part) {
  wire::PushRows message;
  *message.mutable_part() = part;
  std::vector<std::uint64_t> ids;
  std::vector<float> floats;
  const std::uint32_t port = shard - model_.dense_shards();
  for (std::size_t i = 0; i < gradients.rows.ids.size(); ++i) {
    const std::uint64_t row = gradients.rows.ids[i];
    if (parameter::sparse_shard(row, model_.dense_shards()) != port) continue;
    ids.push_back(row);
    floats.push_back(gradients.rows.gradients[i]);
  }
  Bytes tail;
  const bool is_last = part.part() + 1 == part.parts();
  if (is_last && !ids.empty()) {
    auto* const segment = message.add_segments();
    segment->set_parameter(model_.rows_parameter());
    segment->set_count(ids.size());
    append_bytes(tail, std::span<const std::uint64_t>(ids));
    append_bytes(tail, std::span<const float>(floats));
  }
  ask(shard, FrameType::kPushRows, message, std::move(tail));
}

void Trainer::ask_finish(std::uint32_t shard, bool pauses) {
  wire::FinishPass message;
  message.set_pass(pass_);
  message.set_pause(pauses);
  message.set_pauses(meetings_);
  ask(shard, FrameType::kFinishPass, message);
}

void Trainer::ask_save(std::uint32_t shard) {
  if (!saving_) {
    saving_ = std::make_shared<Snapshot>();
    saving_->dense.resize(model_.dense_shards());
    saving_->rows.resize(model_.dense_shards());
    saving_->update_counts.resize(model_.dense_shards());
  }
  // Ready is idempotent: its answer says where every trainer's lane stands.
  if (shard == 0) ask(shard, FrameType::kReady, wire::Ready());
  if (model_.is_sparse(shard)) return ask_export(shard, 0);
  const std::uint64_t planes = 1 + optim::state_width(model_.set().optimizer());
  for (std::uint32_t plane = 0; plane < planes; ++plane) {
    for (const client::DensePiece& piece : model_.layout().pieces[shard]) {
      wire::PullDense message;
      message.set_offset(piece.offset);
      message.set_count(piece.size);
      message.set_plane(plane);
      ask(shard, FrameType::kPullDense, message);
    }
  }
}

void Trainer::ask_export(std::uint32_t shard, std::uint64_t cursor) {
  wire::ExportRows message;
  message.set_parameter(model_.rows_parameter());
  message.set_cursor(cursor);
  message.set_rows_max(kRowsOfExport);
  ask(shard, FrameType::kExportRows, message);
}

Status Trainer::take(std::uint32_t shard, const Frame& answer) {
  switch (static_cast<FrameType>(answer.header.type)) {
    case FrameType::kPosition:
      return take_position(shard, answer);
    case FrameType::kDenseValues:
    case FrameType::kPushed:
      take_values(shard, answer);
      break;
    case FrameType::kExportedRows:
      return take_exported(shard, answer);
    case FrameType::kPassFinished:
      if (shard == 0) {
        totals_.emplace();
        PADDLE_CHECK(totals_->ParseFromString(answer.head));
      }
      break;
    default:
      break;
  }
  return {};
}

Status Trainer::take_position(std::uint32_t shard, const Frame& answer) {
  wire::Position position;
  PADDLE_CHECK(position.ParseFromString(answer.head));
  if (saving_) {
    saving_->position = position;
  } else if (phase_ != Phase::kLoadBegin) {
    recovery_.on_position(shard, position);
  }
  return {};
}

void Trainer::take_values(std::uint32_t shard, const Frame& answer) {
  if (model_.is_sparse(shard)) return;
  const auto floats = floats_of(answer);
  if (phase_ == Phase::kSave) {
    wire::DenseValues message;
    PADDLE_CHECK(message.ParseFromString(answer.head));
    saving_->update_counts[shard] = message.update_count();
    auto& planes = saving_->dense[shard];
    planes.insert(planes.end(), floats.begin(), floats.end());
    return;
  }
  values_[shard].assign(floats.begin(), floats.end());
}

Status Trainer::take_exported(std::uint32_t shard, const Frame& answer) {
  wire::ExportedRows message;
  PADDLE_CHECK(message.ParseFromString(answer.head));
  if (message.count() > 0) {
    saving_->rows[shard - model_.dense_shards()].push_back(
        {message.count(), message.state_width(), answer.tail});
  }
  if (message.next_cursor() != 0) ask_export(shard, message.next_cursor());
  return {};
}

}  // namespace paddle::sim
