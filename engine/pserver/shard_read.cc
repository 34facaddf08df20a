// Values and rows in and out of a shard: pulls, snapshot loads and exports.
#include <algorithm>

#include <fmt/format.h>

#include "engine/optim/optimizer.h"
#include "engine/pserver/shard.h"

namespace paddle::pserver {
namespace {

template <class T>
std::span<const T> take(ByteSpan& from, std::uint64_t count) {
  const std::span<const T> taken(reinterpret_cast<const T*>(from.data()), count);
  from = from.subspan(count * sizeof(T));
  return taken;
}

}  // namespace

Shard::Refused Shard::only_loading(const Call& call) const {
  if (call.trainer.id == 0 && !ready_) return {};
  return protocol_error(fmt::format("trainer {} sent initial values {}", call.trainer.id,
                                    ready_ ? "after Ready" : "(only trainer 0 may)"));
}

Shard::Refused Shard::on_load_begin(Call& call, const wire::LoadBegin& message) {
  if (auto refused = only_loading(call)) return refused;
  const auto& trainers = membership_.trainers();
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
  for (Trainer& trainer : membership_.trainers()) {
    const auto id = static_cast<int>(trainer.id);
    trainer.last_applied = has_cursors ? message.cursors(id) : 0;
    trainer.clock = is_in_pass ? message.pass_batches(id) : 0;
  }
  step_ = message.step();
  passes_finished_ = message.passes_finished();
  samples_ = message.samples();
  reply_position(call);
  return {};
}

Shard::Refused Shard::on_put_dense(Call& call, const wire::PutDense& message) {
  if (auto refused = only_loading(call)) return refused;
  if (!dense_) return protocol_error("dense values on a sparse port");
  ByteSpan tail = call.frame.tail;
  if (tail.size() % sizeof(float) != 0 || tail.size() / sizeof(float) != message.count()) {
    return protocol_error(fmt::format("{} values in {} bytes", message.count(), tail.size()));
  }
  const auto values = take<float>(tail, message.count());
  if (const Status written =
          dense_->write(message.plane(), message.offset(), values, message.update_count());
      !written) {
    return protocol_error(written.error().message);
  }
  wire::Done done;
  done.set_request(call.request);
  reply(call.trainer, FrameType::kDone, done, {}, call.out);
  return {};
}

Shard::Refused Shard::on_put_rows(Call& call, const wire::PutRows& message) {
  if (auto refused = only_loading(call)) return refused;
  const std::uint32_t parameter = message.parameter();
  if (sparse(parameter) == nullptr) return protocol_error("rows of no table of this port");
  table::SparseTable& table = *tables_[parameter];
  const std::uint64_t row_bytes = table.exported_bytes_per_row();
  ByteSpan tail = call.frame.tail;
  if (message.state_width() != table.state_width() || tail.size() % row_bytes != 0 ||
      tail.size() / row_bytes != message.count()) {
    return protocol_error(fmt::format("{} rows of state width {} in {} bytes, {} bytes a row here",
                                      message.count(), message.state_width(), tail.size(),
                                      row_bytes));
  }
  const auto ids = take<std::uint64_t>(tail, message.count());
  const RowSegment segment{parameter, table.width(), ids, {}};
  if (auto refused = check_room({&segment, 1}, 1)) return refused;
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
  wire::Done done;
  done.set_request(call.request);
  reply(call.trainer, FrameType::kDone, done, {}, call.out);
  return {};
}

Shard::Refused Shard::on_pull_dense(Call& call, const wire::PullDense& message) {
  if (!ready_) return protocol_error("a pull before Ready");
  if (!dense_) return protocol_error("a dense pull on a sparse port");
  if (message.count() > kTransferBytesMax / sizeof(float)) {
    return Refusal{wire::REFUSAL_LIMIT, "a pull of more than one frame's share", ""};
  }
  const auto values = dense_->read(message.plane(), message.offset(), message.count());
  if (!values) return protocol_error(values.error().message);
  if (policy_->has_rounds() && call.frame.header.step > step_) {
    wait(call, WaitFor::kStep);
    return {};
  }
  wire::DenseValues answer;
  answer.set_request(call.request);
  answer.set_step(step_);
  answer.set_update_count(dense_->update_count(message.offset()));
  call.trainer.seen_updates = updates_;
  if (compensation_ && message.plane() == 0) {
    compensation_->on_values(call.trainer.id, message.offset(), *values);
  }
  reply(call.trainer, FrameType::kDenseValues, answer, {}, call.out);
  call.out.back().view = bytes_of(*values);
  return {};
}

Shard::Refused Shard::on_pull_rows(Call& call, const wire::PullRows& message) {
  if (!ready_) return protocol_error("a pull before Ready");
  const auto segments = read_segments(message.segments(), call.frame.tail, widths_, false);
  if (!segments) return protocol_error(segments.error().message);
  std::uint64_t left = kTransferBytesMax / sizeof(float);
  for (const RowSegment& segment : *segments) {
    if (segment.ids.size() > left / segment.width) {
      return Refusal{wire::REFUSAL_LIMIT, "a pull of more than one frame's share", ""};
    }
    left -= segment.ids.size() * segment.width;
  }
  if (policy_->has_rounds() && call.frame.header.step > step_) {
    wait(call, WaitFor::kStep);
    return {};
  }
  if (message.averages() && !optim::has_average(set_->optimizer())) {
    return protocol_error("a pull of averages, which this job does not keep");
  }
  Bytes tail(kTransferBytesMax - left * sizeof(float));
  auto* to = reinterpret_cast<float*>(tail.data());
  for (const RowSegment& segment : *segments) {
    const std::size_t floats = segment.ids.size() * segment.width;
    table::SparseTable& table = *tables_[segment.parameter];
    if (message.averages()) {
      table.read_averages(segment.ids, {to, floats});
    } else {
      table.read_to_push(segment.ids, {to, floats});
    }
    to += floats;
  }
  call.trainer.seen_updates = updates_;
  wire::RowValues answer;
  answer.set_request(call.request);
  answer.set_step(step_);
  reply(call.trainer, FrameType::kRowValues, answer, std::move(tail), call.out);
  return {};
}

void Shard::release_pulls(TimePoint now, std::vector<net::Outgoing>& out) {
  for (Trainer& trainer : membership_.trainers()) {
    if (!trainer.waiter || trainer.waiter->what != WaitFor::kStep) continue;
    Waiter waiter = std::move(*trainer.waiter);
    trainer.waiter.reset();
    Call call{now, trainer, waiter.frame, out, waiter.request};
    if (const auto refused = dispatch(call)) refuse(trainer.peer, waiter.request, *refused, out);
  }
}

}  // namespace paddle::pserver
