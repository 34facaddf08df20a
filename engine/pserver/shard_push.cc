// Rounds of a shard: what happens to pushes.
#include <algorithm>

#include <fmt/format.h>

#include "engine/optim/finite.h"
#include "engine/pserver/lag.h"
#include "engine/pserver/shard.h"

namespace paddle::pserver {

Shard::Refused Shard::begin_part(Call& call, const wire::PushPart& part, bool& is_answered) {
  Trainer& trainer = call.trainer;
  const std::uint64_t sequence = call.frame.header.sequence;
  is_answered = false;
  if (!ready_) return protocol_error("a push before Ready");
  if (sequence <=
      trainer.last_applied) {  // applied already: acknowledged again, with today's values
    is_answered = true;
    reply_pushed(trainer, call.request, false, call.out);
    return {};
  }
  if (sequence > trainer.last_applied + 1) {
    return Refusal{wire::REFUSAL_GAP,
                   fmt::format("trainer {} sent batch {}, but {} is the last one applied",
                               trainer.id, sequence, trainer.last_applied),
                   ""};
  }
  if (trainer.finished) return protocol_error("a push after FinishPass");
  if (part.parts() == 0 || part.parts() > kPushPartsMax || part.part() >= part.parts() ||
      part.batches() > kMergedBatchesMax) {
    return protocol_error(
        fmt::format("part {} of {}, {} batches", part.part(), part.parts(), part.batches()));
  }
  if (policy_->has_rounds() && call.frame.header.step != step_) {
    return protocol_error(fmt::format("trainer {} pushed step {}, this shard is at step {}",
                                      trainer.id, call.frame.header.step, step_));
  }
  const std::uint32_t taken = trainer.push ? trainer.push->parts_taken : 0;
  if (trainer.has_complete_push()) {  // kept from before a reconnection
    is_answered = true;
    wait(call, WaitFor::kUpdate);
    return {};
  }
  if (part.part() < taken) {
    is_answered = true;
    wire::Stored stored;
    stored.set_request(call.request);
    reply(trainer, FrameType::kStored, stored, {}, call.out);
    return {};
  }
  if (part.part() > taken || (taken > 0 && trainer.push->parts != part.parts())) {
    return protocol_error(
        fmt::format("part {} of {} after {} parts", part.part(), part.parts(), taken));
  }
  if (!trainer.push) {
    trainer.push.emplace();
    trainer.push->sequence = sequence;
    trainer.push->parts = part.parts();
  }
  trainer.push->bytes += call.frame.tail.size();
  for (const ByteSpan piece : lent_) trainer.push->bytes += piece.size();
  if (trainer.push->bytes > kPushBytesMax) {
    return Refusal{
        wire::REFUSAL_LIMIT,
        fmt::format("batch {} of trainer {} is over {} bytes", sequence, trainer.id, kPushBytesMax),
        "use a smaller batch or more ports"};
  }
  trainer.push->samples = part.samples();
  trainer.push->cost_sum = part.cost_sum();
  trainer.push->stop = part.stop();
  trainer.push->batches = std::max<std::uint64_t>(1, part.batches());
  return {};
}

Shard::Refused Shard::on_push_dense(Call& call, const wire::PushDense& message) {
  if (!dense_) return protocol_error("a dense push on a sparse port");
  bool is_answered = false;
  if (auto refused = begin_part(call, message.part(), is_answered)) return refused;
  if (is_answered) return {};
  Push& push = *call.trainer.push;
  const Status added = can_borrow(call.frame, message)
                           ? push.lend_dense(dense_->size(), lent_)
                           : add_dense(push, message, std::move(call.frame.tail));
  if (!added) return protocol_error(added.error().message);
  auto refused = end_part(call);
  if (call.trainer.push) call.trainer.push->keep();  // it waits: for longer than it was lent
  return refused;
}

void Shard::on_frame_in_pieces(TimePoint now, net::PeerId from, Frame&& frame,
                               std::span<const ByteSpan> pieces, std::vector<net::Outgoing>& out) {
  if (frame.header.type != static_cast<std::uint8_t>(FrameType::kPushDense)) {
    return FrameHandler::on_frame_in_pieces(now, from, std::move(frame), pieces, out);
  }
  lent_ = pieces;
  on_frame(now, from, std::move(frame), out);
  lent_ = {};
}

// A whole push in floats that its blocks can be updated from where they lie.
bool Shard::can_borrow(const Frame& frame, const wire::PushDense& message) const {
  if (lent_.empty() || !frame.tail.empty() || message.part().parts() != 1) return false;
  if (message.offset() != 0 || message.count() != dense_->size()) return false;
  GradientParts parts;
  for (const ByteSpan piece : lent_) {
    const auto address = reinterpret_cast<std::uintptr_t>(piece.data());
    if (piece.size() % sizeof(float) != 0 || address % alignof(float) != 0) return false;
    parts.emplace_back(reinterpret_cast<const float*>(piece.data()), piece.size() / sizeof(float));
  }
  return dense_->fits(parts);
}

Status Shard::add_dense(Push& push, const wire::PushDense& message, Bytes&& tail) const {
  net::append_pieces(tail, lent_);
  return push.add_dense(message.offset(), message.count(), dense_->size(), std::move(tail));
}

Shard::Refused Shard::on_push_rows(Call& call, const wire::PushRows& message) {
  if (dense_) return protocol_error("a push of rows on a dense port");
  bool is_answered = false;
  if (auto refused = begin_part(call, message.part(), is_answered)) return refused;
  if (is_answered) return {};
  if (const Status added =
          call.trainer.push->add_rows(message, push_widths_, std::move(call.frame.tail));
      !added) {
    return protocol_error(added.error().message);
  }
  return end_part(call);
}

Shard::Refused Shard::check_values(const Call& call, const Push& push) {
  std::string parameter;
  if (dense_) {
    GradientParts parts = push.lent();
    if (parts.empty()) parts.push_back(push.dense(scratch_));
    parameter = dense_->find_not_finite(parts);
  }
  for (const RowSegment& segment : push.segments()) {
    if (!optim::all_finite(segment.floats)) {
      parameter = set_->parameters(static_cast<int>(segment.parameter)).name();
    }
    const table::SparseTable& table = *tables_[segment.parameter];
    const parameter::RowNotes& notes = table.notes();
    for (std::size_t i = 0; notes.size() > 0 && i < segment.ids.size(); ++i) {
      if (notes.valid(segment.floats.data() + i * segment.width + table.width())) continue;
      return protocol_error(
          fmt::format("trainer {} pushed shows, clicks or a slot of '{}' that "
                      "cannot be (batch {})",
                      call.trainer.id, set_->parameters(static_cast<int>(segment.parameter)).name(),
                      push.sequence));
    }
  }
  if (parameter.empty()) return {};
  return Refusal{wire::REFUSAL_NOT_FINITE,
                 fmt::format("trainer {} pushed a gradient of '{}' that is not finite (batch {})",
                             call.trainer.id, parameter, push.sequence),
                 "lower the learning rate or look at the data of this batch"};
}

Shard::Refused Shard::check_room(std::span<const RowSegment> segments, std::uint64_t contributors) {
  std::uint64_t held = 0;
  for (const auto& table : tables_) held += table ? table->counted_bytes() : 0;
  std::vector<std::uint64_t> ids(tables_.size(), 0);  // by table; a push may come in parts
  std::uint64_t most = 0;
  for (const RowSegment& segment : segments) {
    ids[segment.parameter] += segment.ids.size();
    most += tables_[segment.parameter]->bytes_for(segment.ids.size() * contributors);
  }
  // Those that wait have reserved memory before, which others may have used up since.
  std::vector<std::uint64_t> waiting(tables_.size(), 0);
  for (const Trainer& trainer : membership_.trainers()) {
    if (!trainer.has_complete_push()) continue;
    for (const RowSegment& segment : trainer.push->segments()) {
      waiting[segment.parameter] += segment.ids.size();
    }
  }
  for (std::uint32_t parameter = 0; parameter < ids.size(); ++parameter) {
    if (ids[parameter] == 0) continue;
    const std::uint64_t count = ids[parameter] * contributors + waiting[parameter];
    if (const Status got = tables_[parameter]->reserve(count); !got) {
      return Refusal{wire::REFUSAL_LIMIT, got.error().message, got.error().hint};
    }
    if (ids[parameter] * contributors > tables_[parameter]->room()) {
      if (auto refused = check_table(parameter, segments, contributors)) return refused;
    }
  }
  if (held + most <= options_.bytes_max) return {};
  for (const RowSegment& segment : segments) {
    const table::SparseTable& table = *tables_[segment.parameter];
    held += table.bytes_for(table.count_absent(segment.ids) * contributors);
    if (held <= options_.bytes_max) continue;
    return Refusal{wire::REFUSAL_LIMIT,
                   fmt::format("table '{}' would grow over the limit of this port ({} bytes)",
                               set_->parameters(static_cast<int>(segment.parameter)).name(),
                               options_.bytes_max),
                   "use more pservers or ports_num_for_sparse"};
  }
  return {};
}

// A table near its own bytes_max: counts the rows that are really new.
Shard::Refused Shard::check_table(std::uint32_t parameter, std::span<const RowSegment> segments,
                                  std::uint64_t contributors) const {
  const table::SparseTable& table = *tables_[parameter];
  std::uint64_t absent = 0;
  for (const RowSegment& segment : segments) {
    if (segment.parameter == parameter) absent += table.count_absent(segment.ids);
  }
  if (absent * contributors <= table.room()) return {};
  const auto& spec = set_->parameters(static_cast<int>(parameter));
  return Refusal{
      wire::REFUSAL_LIMIT,
      fmt::format("table '{}' has {} rows on this port and would grow over its "
                  "bytes_max of {} (over {} ports)",
                  spec.name(), table.rows(), spec.table().bytes_max(), set_->sparse_shards()),
      "raise bytes_max, or give up rows: on_full = \"evict\", expire_passes"};
}

Shard::Refused Shard::end_part(Call& call) {
  Trainer& trainer = call.trainer;
  if (!trainer.push->complete()) {
    wire::Stored stored;
    stored.set_request(call.request);
    reply(trainer, FrameType::kStored, stored, {}, call.out);
    return {};
  }
  auto refused = check_values(call, *trainer.push);
  // Every trainer may add as many in the same round, or wait with as many.
  const std::uint64_t contributors = policy_->holds_pushes() ? options_.num_gradient_servers : 1;
  if (!refused) refused = check_room(trainer.push->segments(), contributors);
  if (refused) {
    trainer.push.reset();
    return refused;
  }
  wait(call, WaitFor::kUpdate);
  advance(call.now, call.out);
  return {};
}

void Shard::apply_dense(float learning_rate, std::span<const Push* const> pushes,
                        std::uint32_t trainer) {
  if (pushes.size() == 1 && pushes[0]->samples > 0 && !pushes[0]->lent().empty() &&
      !compensation_) {
    return dense_->apply(learning_rate, pushes[0]->lent());
  }
  auto gradient = merge_dense(pushes, set_->merge(), scratch_, part_scratch_);
  if (gradient.size() != dense_->size()) return;
  if (compensation_) {
    gradient = compensation_->compensate(trainer, gradient, dense_->values(), part_scratch_);
  }
  dense_->apply(learning_rate, gradient);
}

Shard::Refused Shard::set_up_compensation(const wire::ParameterSet& set) {
  if (set.delay_compensation() <= 0 || policy_->has_rounds()) return {};
  const std::uint64_t bytes = dense_->values().size_bytes();
  const std::uint64_t copies = 1 + dense_->state_width() + set.num_trainers();
  if (bytes > 0 && copies > options_.bytes_max / bytes) {
    return Refusal{wire::REFUSAL_LIMIT,
                   fmt::format("delay_compensation keeps {} copies of {} bytes, the limit is {}",
                               copies, bytes, options_.bytes_max),
                   "use more pservers or ports_num"};
  }
  compensation_.emplace(set.delay_compensation(), set.num_trainers(), dense_->size());
  return {};
}

void Shard::advance(TimePoint now, std::vector<net::Outgoing>& out) {
  if (failure_ || !policy_) return;
  for (;;) {
    const std::vector<Trainer*> next = policy_->next_update(membership_);
    if (next.empty()) return;
    apply(next, out);
    if (policy_->has_rounds()) release_pulls(now, out);
  }
}

void Shard::apply(std::span<Trainer* const> trainers, std::vector<net::Outgoing>& out) {
  net::keep_views(out);
  std::vector<const Push*> pushes;
  std::uint64_t samples = 0;
  std::uint64_t lag = 0;
  for (const Trainer* trainer : trainers) {
    pushes.push_back(&*trainer->push);
    samples += trainer->push->samples;
    lag = std::max(lag, updates_ - trainer->seen_updates);
  }
  samples_ += samples;
  const float learning_rate =
      policy_->learning_rate(set_->optimizer(), {samples_, passes_finished_});
  const bool is_discarded = policy_->discards(lag);
  if (is_discarded) {
    totals_.set_discarded(totals_.discarded() + pushes.size());
  } else if (dense_) {
    apply_dense(learning_rate, pushes, trainers.front()->id);
  } else {
    apply_rows(learning_rate, set_->merge(), pushes, tables_);
  }
  ++step_;
  for (Trainer* trainer : trainers) {
    const Push& push = *trainer->push;
    totals_.set_samples(totals_.samples() + push.samples);
    totals_.set_cost_sum(totals_.cost_sum() + push.cost_sum);
    count_push(totals_, push.batches, lag);
    stop_ = stop_ || push.stop;
    trainer->last_applied = push.sequence;
    trainer->clock += push.batches;
    if (!policy_->has_rounds() && !is_discarded) updates_ += push.batches;
  }
  for (Trainer* trainer : trainers) {
    trainer->push.reset();
    // Without a waiter its connection is gone, or it has come back and asks something else.
    if (!trainer->waiter || trainer->waiter->what != WaitFor::kUpdate) continue;
    const std::uint64_t request = trainer->waiter->request;
    trainer->waiter.reset();
    reply_pushed(*trainer, request, is_discarded, out);
  }
}

void Shard::reply_pushed(Trainer& trainer, std::uint64_t request, bool is_discarded,
                         std::vector<net::Outgoing>& out) {
  wire::Pushed message;
  message.set_request(request);
  message.set_step(step_);
  message.set_last_applied(trainer.last_applied);
  message.set_discarded(is_discarded);
  message.set_stop(stop_);
  const bool has_values =
      options_.sends_values && dense_ && dense_->values().size_bytes() <= kTransferBytesMax;
  message.set_has_values(has_values);
  trainer.seen_updates = updates_;
  if (compensation_ && (has_values || !options_.sends_values)) {
    compensation_->on_values(trainer.id, 0, dense_->values());
  }
  reply(trainer, FrameType::kPushed, message, {}, out);
  if (has_values) out.back().view = bytes_of(dense_->values());
}

}  // namespace paddle::pserver
