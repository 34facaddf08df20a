#include "engine/pserver/value_transfer.h"

#include <fmt/format.h>

#include "engine/optim/optimizer.h"

namespace paddle::pserver {
namespace {

template <class T>
std::span<const T> take(ByteSpan& from, std::uint64_t count) {
  const std::span<const T> taken(reinterpret_cast<const T*>(from.data()), count);
  from = from.subspan(count * sizeof(T));
  return taken;
}

}  // namespace

Refused ValueTransfer::check_loading(const Request& request) const {
  if (request.trainer.id == 0 && !state_.progress.ready) return {};
  return protocol_error(
      fmt::format("trainer {} sent initial values {}", request.trainer.id,
                  state_.progress.ready ? "after Ready" : "(only trainer 0 may)"));
}

Refused ValueTransfer::on_load_begin(const Request& request, const wire::LoadBegin& message) {
  if (auto refused = check_loading(request)) return refused;
  auto& trainers = state_.membership.trainers();
  const bool has_cursors = message.cursors_size() > 0;
  if (has_cursors && static_cast<std::size_t>(message.cursors_size()) != trainers.size()) {
    return protocol_error(
        fmt::format("{} cursors for {} trainers", message.cursors_size(), trainers.size()));
  }
  const bool is_in_pass = message.pass_batches_size() > 0;
  if (is_in_pass && static_cast<std::size_t>(message.pass_batches_size()) != trainers.size()) {
    return protocol_error(fmt::format("{} places in a pass for {} trainers",
                                      message.pass_batches_size(), trainers.size()));
  }
  for (Trainer& trainer : trainers) {
    const auto id = static_cast<int>(trainer.id);
    trainer.last_applied = has_cursors ? message.cursors(id) : 0;
    trainer.clock = is_in_pass ? message.pass_batches(id) : 0;
  }
  state_.progress.step = message.step();
  state_.progress.passes_finished = message.passes_finished();
  state_.progress.samples = message.samples();
  state_.replies.position(request.trainer, request.id, state_.membership, request.out);
  return {};
}

Refused ValueTransfer::on_put_dense(const Request& request, const wire::PutDense& message) {
  if (auto refused = check_loading(request)) return refused;
  if (state_.parameters.dense() == nullptr) return protocol_error("dense values on a sparse port");
  ByteSpan tail = request.frame.tail;
  if (tail.size() % sizeof(float) != 0 || tail.size() / sizeof(float) != message.count()) {
    return protocol_error(fmt::format("{} values in {} bytes", message.count(), tail.size()));
  }
  const auto values = take<float>(tail, message.count());
  const Status written = state_.parameters.dense()->write(message.plane(), message.offset(), values,
                                                          message.update_count());
  if (!written) return protocol_error(written.error().message);
  state_.replies.acknowledge<wire::Done>(request, FrameType::kDone);
  return {};
}

Refused ValueTransfer::on_put_rows(const Request& request, const wire::PutRows& message) {
  if (auto refused = check_loading(request)) return refused;
  const std::uint32_t parameter = message.parameter();
  if (state_.parameters.table(parameter) == nullptr) {
    return protocol_error("rows of no table of this port");
  }
  table::SparseTable& table = *state_.parameters.table(parameter);
  const std::uint64_t row_bytes = table.exported_bytes_per_row();
  ByteSpan tail = request.frame.tail;
  if (message.state_width() != table.state_width() || tail.size() % row_bytes != 0 ||
      tail.size() / row_bytes != message.count()) {
    return protocol_error(fmt::format("{} rows of state width {} in {} bytes, {} bytes a row here",
                                      message.count(), message.state_width(), tail.size(),
                                      row_bytes));
  }
  const auto ids = take<std::uint64_t>(tail, message.count());
  const RowSegment segment{parameter, table.width(), ids, {}};
  if (auto refused = state_.parameters.make_room({&segment, 1}, 1, state_.membership)) {
    return refused;
  }
  const auto marks = take<std::uint64_t>(tail, message.count());
  const auto values = take<float>(tail, message.count() * table.width());
  const std::uint64_t state_floats = table.width() * table.state_width();
  const auto state = take<float>(tail, message.count() * state_floats);
  const auto scores = take<parameter::RowScore>(tail, table.shrinks() ? message.count() : 0);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    table.put({ids[i], parameter::RowMarks::unpack(marks[i]),
               values.subspan(i * table.width(), table.width()),
               state.subspan(i * state_floats, state_floats),
               scores.empty() ? parameter::RowScore() : scores[i]});
  }
  state_.replies.acknowledge<wire::Done>(request, FrameType::kDone);
  return {};
}

Refused ValueTransfer::on_pull_dense(const Request& request, const wire::PullDense& message) {
  if (!state_.progress.ready) return protocol_error("a pull before Ready");
  const table::DenseTable* const dense = state_.parameters.dense();
  if (dense == nullptr) return protocol_error("a dense pull on a sparse port");
  if (message.count() > kTransferBytesMax / sizeof(float)) {
    return Refusal{wire::REFUSAL_LIMIT, "a pull of more than one frame's share", ""};
  }
  const auto values = dense->read(message.plane(), message.offset(), message.count());
  if (!values) return protocol_error(values.error().message);
  if (is_ahead(request)) {
    request.wait(WaitFor::kStep);
    return {};
  }
  wire::DenseValues answer;
  answer.set_request(request.id);
  answer.set_step(state_.progress.step);
  answer.set_update_count(dense->update_count(message.offset()));
  request.trainer.seen_updates = state_.progress.updates;
  if (state_.parameters.compensation() != nullptr && message.plane() == 0) {
    state_.parameters.compensation()->on_values(request.trainer.id, message.offset(), *values);
  }
  state_.replies.send(request.trainer, FrameType::kDenseValues, answer, {}, request.out);
  request.out.back().view = bytes_of(*values);
  return {};
}

Refused ValueTransfer::on_pull_rows(const Request& request, const wire::PullRows& message) {
  if (!state_.progress.ready) return protocol_error("a pull before Ready");
  const auto segments =
      read_segments(message.segments(), request.frame.tail, state_.parameters.widths(), false);
  if (!segments) return protocol_error(segments.error().message);
  std::uint64_t left = kTransferBytesMax / sizeof(float);
  for (const RowSegment& segment : *segments) {
    if (segment.ids.size() > left / segment.width) {
      return Refusal{wire::REFUSAL_LIMIT, "a pull of more than one frame's share", ""};
    }
    left -= segment.ids.size() * segment.width;
  }
  if (is_ahead(request)) {
    request.wait(WaitFor::kStep);
    return {};
  }
  if (message.averages() && !optim::has_average(state_.parameters.set().optimizer())) {
    return protocol_error("a pull of averages, which this job does not keep");
  }
  Bytes tail(kTransferBytesMax - left * sizeof(float));
  auto* to = reinterpret_cast<float*>(tail.data());
  for (const RowSegment& segment : *segments) {
    const std::size_t floats = segment.ids.size() * segment.width;
    table::SparseTable& table = *state_.parameters.table(segment.parameter);
    if (message.averages()) {
      table.read_averages(segment.ids, {to, floats});
    } else {
      table.read_to_push(segment.ids, {to, floats});
    }
    to += floats;
  }
  request.trainer.seen_updates = state_.progress.updates;
  wire::RowValues answer;
  answer.set_request(request.id);
  answer.set_step(state_.progress.step);
  state_.replies.send(request.trainer, FrameType::kRowValues, answer, std::move(tail), request.out);
  return {};
}

}  // namespace paddle::pserver
