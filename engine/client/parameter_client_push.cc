// Gradients on their way to the shards.
#include <algorithm>
#include <array>

#include "engine/client/parameter_client_impl.h"

namespace paddle::client {

std::vector<ParameterClientImpl::Part> ParameterClientImpl::dense_parts(
    std::size_t shard, const wire::PushPart& totals,
    std::span<DenseParameter* const> parameters) const {
  const std::uint64_t floats_max = options_.transfer_bytes / sizeof(float);
  const std::uint64_t size = plan_.sizes[shard];
  const std::uint64_t parts = std::max<std::uint64_t>(1, (size + floats_max - 1) / floats_max);
  std::vector<Part> result(parts);
  for (std::uint64_t i = 0; i < parts; ++i) {
    const std::uint64_t offset = i * floats_max;
    const std::uint64_t count = std::min(size - offset, floats_max);
    wire::PushDense& message = result[i].dense;
    *message.mutable_part() = totals;
    message.mutable_part()->set_part(static_cast<std::uint32_t>(i));
    message.mutable_part()->set_parts(static_cast<std::uint32_t>(parts));
    message.set_offset(offset);
    message.set_count(count);
    result[i].pieces = gather(plan_.pieces[shard], parameters, offset, count);
  }
  return result;
}

std::vector<ParameterClientImpl::Part> ParameterClientImpl::row_parts(
    const std::vector<RowFrame>& frames, const wire::PushPart& totals,
    std::span<const SparseRows> tables) const {
  std::vector<Part> result(frames.size());
  for (std::size_t i = 0; i < frames.size(); ++i) {
    wire::PushRows& message = result[i].rows;
    *message.mutable_part() = totals;
    message.mutable_part()->set_part(static_cast<std::uint32_t>(i));
    message.mutable_part()->set_parts(static_cast<std::uint32_t>(frames.size()));
    Bytes& tail = result[i].tail;
    // Notes stand between gradients.
    const bool in_place = stays_in_place(frames[i]) &&
                          std::ranges::all_of(frames[i].ranges, [&](const RowRange& range) {
                            return notes(tables[range.table].parameter).size() == 0;
                          });
    std::uint64_t bytes = 0;
    for (const RowRange& range : frames[i].ranges) {
      const std::uint32_t parameter = tables[range.table].parameter;
      const std::uint64_t floats = in_place ? 0 : width(parameter) + notes(parameter).size();
      bytes += range.count * (sizeof(std::uint64_t) + floats * sizeof(float));
    }
    tail.reserve(bytes);
    put_ids(message, tail, frames[i], tables);
    for (const RowRange& range : frames[i].ranges) {
      const SparseRows& table = tables[range.table];
      const std::size_t floats_per_row = width(table.parameter);
      const std::size_t notes_per_row = notes(table.parameter).size();
      for (const RowRun& run : range.runs) {
        const auto gradients = std::span(table.gradients)
                                   .subspan(run.begin * floats_per_row, run.count * floats_per_row);
        if (in_place) {
          result[i].pieces.push_back(bytes_of(gradients));
        } else if (notes_per_row == 0) {
          append_bytes(tail, gradients);
        }
        for (std::size_t row = 0; notes_per_row > 0 && row < run.count; ++row) {
          append_bytes(tail, gradients.subspan(row * floats_per_row, floats_per_row));
          append_bytes(
              tail,
              std::span(table.notes).subspan((run.begin + row) * notes_per_row, notes_per_row));
        }
      }
    }
  }
  return result;
}

Status ParameterClientImpl::send_part(ClientLanes& lanes, std::size_t lane, Part&& part) {
  return &lanes == &dense_
             ? lanes.send(lane, FrameType::kPushDense, part.dense, {}, part.pieces)
             : lanes.send(lane, FrameType::kPushRows, part.rows, std::move(part.tail), part.pieces);
}

Status ParameterClientImpl::push_parts(PartLists& dense, PartLists& sparse,
                                       std::span<DenseParameter* const> to) {
  if (!options_.both || dense.empty() || sparse.empty()) {
    const std::array kinds{&dense_, &sparse_};
    return push_parts_of(kinds, dense, sparse, to);
  }
  std::array<Status, 2> outcomes;
  options_.both([&](std::size_t part) {
    ClientLanes* const kind = part == 0 ? &dense_ : &sparse_;
    if (part < outcomes.size()) outcomes[part] = push_parts_of({&kind, 1}, dense, sparse, to);
  });
  PADDLE_TRY_STATUS(std::move(outcomes[0]));
  return std::move(outcomes[1]);
}

// Last parts go out only when every lane's earlier parts are stored: their answers wait for the
// other trainers, who must not in turn wait for a part that this trainer still holds back.
Status ParameterClientImpl::push_parts_of(std::span<ClientLanes* const> kinds, PartLists& dense,
                                          PartLists& sparse, std::span<DenseParameter* const> to) {
  const auto each = [&](auto&& use) -> Status {
    for (ClientLanes* lanes : kinds) {
      auto& lists = lanes == &dense_ ? dense : sparse;
      for (std::size_t i = 0; i < lists.size(); ++i) {
        PADDLE_TRY_STATUS(use(*lanes, i, lists[i]));
      }
    }
    return {};
  };
  const auto send_early = [&](ClientLanes& lanes, std::size_t lane, auto& parts) -> Status {
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      PADDLE_TRY_STATUS(send_part(lanes, lane, std::move(parts[i])));
      PADDLE_TRY_STATUS(lanes.receive(lane, FrameType::kStored));
    }
    return {};
  };
  PADDLE_TRY_STATUS(each(send_early));
  PADDLE_TRY_STATUS(each([&](ClientLanes& lanes, std::size_t lane, auto& parts) {
    return send_part(lanes, lane, std::move(parts.back()));
  }));
  std::vector<std::size_t> to_pull;
  const auto receive = [&](ClientLanes& lanes, std::size_t lane, auto&) -> Status {
    if (&lanes != &dense_) {
      PADDLE_TRY_STATUS(lanes.receive(lane, FrameType::kPushed));
      return {};
    }
    wire::Pushed pushed;
    PADDLE_TRY_STATUS(receive_values(lane, FrameType::kPushed, 0, plan_.sizes[lane], to, pushed));
    if (!pushed.has_values()) to_pull.push_back(lane);
    return {};
  };
  PADDLE_TRY_STATUS(each(receive));
  PADDLE_TRY_STATUS(each([this](ClientLanes& lanes, std::size_t lane, auto&) -> Status {
    if (lanes.at(lane).stop_asked()) stop_asked_ = true;
    return {};
  }));
  for (const std::size_t shard : to_pull) PADDLE_TRY_STATUS(pull_shard(shard, to));
  return {};
}

Status ParameterClientImpl::push(std::uint64_t num_samples, double cost_sum,
                                 std::span<DenseParameter> dense, std::span<SparseRows> sparse) {
  return push_kinds({1, num_samples, cost_sum}, dense, sparse, true, true);
}
Status ParameterClientImpl::push_dense(const PushTotals& totals, std::span<DenseParameter> dense) {
  return push_kinds(totals, dense, {}, true, false);
}
Status ParameterClientImpl::push_rows(const PushTotals& totals, std::span<SparseRows> rows) {
  return push_kinds(totals, {}, rows, false, true);
}

Status ParameterClientImpl::push_kinds(const PushTotals& counts, std::span<DenseParameter> dense,
                                       std::span<SparseRows> sparse, bool with_dense,
                                       bool with_sparse) {
  std::vector<DenseParameter*> by_index;
  PADDLE_TRY_STATUS(check_dense(dense, by_index));
  PADDLE_TRY_STATUS(check_rows(sparse, true));
  wire::PushPart totals;
  totals.set_samples(counts.samples);
  totals.set_cost_sum(counts.cost);
  if (counts.batches > 1) totals.set_batches(counts.batches);
  totals.set_stop(asks_to_stop_);  // read once: every port gets the same
  PartLists dense_part_lists;
  for (std::size_t shard = 0; with_dense && shard < dense_.size(); ++shard) {
    dense_part_lists.push_back(dense_parts(shard, totals, by_index));
  }
  PartLists sparse_part_lists;
  if (with_sparse) {
    for (const auto& frames : plan_rows(sparse, options_.parameters, options_.transfer_bytes)) {
      sparse_part_lists.push_back(row_parts(frames, totals, sparse));
    }
  }
  return push_parts(dense_part_lists, sparse_part_lists, by_index);
}

}  // namespace paddle::client
