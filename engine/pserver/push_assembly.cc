#include "engine/pserver/push_assembly.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "engine/math/update_kernels.h"
#include "engine/table/parameter_set.h"

namespace paddle::pserver {

Refused PushAssembly::check_part(const Request& request, const wire::PushPart& part) {
  const Trainer& trainer = request.trainer;
  const FrameHeader& header = request.frame.header;
  if (!state_.progress.ready) return protocol_error("a push before Ready");
  if (header.sequence > trainer.last_applied + 1) {
    return Refusal{wire::REFUSAL_GAP,
                   fmt::format("trainer {} sent batch {}, but {} is the last one applied",
                               trainer.id, header.sequence, trainer.last_applied)};
  }
  if (trainer.finished) return protocol_error("a push after FinishPass");
  if (part.parts() == 0 || part.parts() > kPushPartsMax || part.part() >= part.parts() ||
      part.batches() > kMergedBatchesMax) {
    return protocol_error("malformed push: part {} of {}, {} batches", part.part(), part.parts(),
                          part.batches());
  }
  if (auto refused = check_totals(request, part)) return refused;
  if (state_.parameters.policy().has_rounds() && header.step != state_.progress.step) {
    return protocol_error("trainer {} pushed step {}, but this shard is at step {}", trainer.id,
                          header.step, state_.progress.step);
  }
  return {};
}

// Samples of the whole job and of the pushes that wait, except for this trainer's push.
std::uint64_t PushAssembly::samples_beside(const Trainer& trainer) const {
  std::uint64_t total = state_.progress.samples;
  for (const Trainer& other : state_.membership.trainers()) {
    if (other.push && other.id != trainer.id) total += other.push->samples;
  }
  return total;
}

// Refuses totals above what the reader of a snapshot accepts.
Refused PushAssembly::check_totals(const Request& request, const wire::PushPart& part) {
  const std::uint64_t batches = std::max<std::uint64_t>(1, part.batches());
  const auto refused = [&] {
    return protocol_error("{} samples in {} batches, after {}", part.samples(), batches,
                          samples_beside(request.trainer));
  };
  if (part.samples() > parameter::kBatchSamplesMax * batches) return refused();
  begun_ = std::min(begun_ + part.samples(), parameter::kCounterMax + 1);
  if (state_.progress.samples + begun_ > parameter::kCounterMax &&
      samples_beside(request.trainer) + part.samples() > parameter::kCounterMax) {
    return refused();
  }
  if (std::isfinite(part.cost_sum())) return {};
  return Refusal{wire::REFUSAL_NOT_FINITE,
                 fmt::format("trainer {} pushed a cost of {} (batch {})", request.trainer.id,
                             part.cost_sum(), request.frame.header.sequence),
                 "lower the learning rate, or check the data of this batch"};
}

// A node has at most as many trainers as the job.
Refused PushAssembly::check_node(const Request& request, const wire::PushDense& message) const {
  if (!message.has_node_samples()) return {};
  const wire::ParameterSet& set = state_.parameters.set();
  const std::uint64_t most = parameter::kBatchSamplesMax * set.num_trainers();
  if (set.node_groups() && message.node_samples() <= most) return {};
  return protocol_error("trainer {} pushed {} samples of its node; the limit is {}",
                        request.trainer.id, message.node_samples(), set.node_groups() ? most : 0);
}

// Pushes that wait may take a quarter of the parameters' limit, since engine/math gives
// parameters 80 percent of the memory. A push of one part is not limited here: it is no larger than
// the frame that it arrived in.
Refused PushAssembly::check_memory(const Request& request) const {
  const Push& push = *request.trainer.push;
  if (push.bytes > kPushBytesMax) {
    return Refusal{wire::REFUSAL_LIMIT,
                   fmt::format("batch {} of trainer {} is over {} bytes", push.sequence,
                               request.trainer.id, kPushBytesMax),
                   "use a smaller batch or more ports"};
  }
  if (push.parts == 1) return {};
  const std::uint64_t most = state_.options.bytes_max + state_.options.bytes_max / 4;
  std::uint64_t held = state_.parameters.bytes();
  for (const Trainer& trainer : state_.membership.trainers()) {
    if (trainer.push) held += trainer.push->bytes;
  }
  if (held <= most) return {};
  return Refusal{wire::REFUSAL_LIMIT,
                 fmt::format("with batch {} of trainer {} this port would hold {} bytes; the limit "
                             "for parameters and waiting pushes is {}",
                             push.sequence, request.trainer.id, held, most),
                 "use more pservers or ports"};
}

Refused PushAssembly::begin(const Request& request, const wire::PushPart& part, bool& is_repeat) {
  if (auto refused = check_part(request, part)) return refused;
  Trainer& trainer = request.trainer;
  const std::uint32_t taken = trainer.push ? trainer.push->parts_taken : 0;
  is_repeat = trainer.has_complete_push() || part.part() < taken;
  // The push was complete before the trainer connected again.
  if (trainer.has_complete_push()) return request.wait(WaitFor::kUpdate);
  if (is_repeat) return state_.replies.acknowledge<wire::Stored>(request, FrameType::kStored);
  if (part.part() > taken || (taken > 0 && trainer.push->parts != part.parts())) {
    return protocol_error("part {} of {} after {} parts", part.part(), part.parts(), taken);
  }
  const std::uint64_t sequence = request.frame.header.sequence;
  if (!trainer.push) {
    trainer.push.emplace();
    trainer.push->sequence = sequence;
    trainer.push->parts = part.parts();
  }
  trainer.push->bytes += request.frame.tail.size();
  if (auto refused = check_memory(request)) return refused;
  trainer.push->samples = part.samples();
  trainer.push->cost_sum = part.cost_sum();
  trainer.push->stop = part.stop();
  trainer.push->asks_savepoint = part.savepoint();
  trainer.push->whole_savepoint = part.whole_savepoint();
  trainer.push->batches = std::max<std::uint64_t>(1, part.batches());
  return {};
}

Refused PushAssembly::take(const Request& request, const wire::PushDense& message) {
  bool is_repeat = false;
  if (auto refused = begin(request, message.part(), is_repeat)) return refused;
  if (is_repeat) return {};
  if (auto refused = check_node(request, message)) return refused;
  Push& push = *request.trainer.push;
  if (message.has_node_samples()) push.node_samples = message.node_samples();
  const std::uint64_t size = state_.parameters.dense()->size();
  if (push.parts == 1 && !carries_dense(message)) {
    push.take_without_dense();
    return finish(request);
  }
  if (const auto* const loan = state_.options.loan.get(); loan && !loan->gradient.empty()) {
    PADDLE_CHECK(state_.parameters.dense()->fits(loan->gradient));
    push.lend_dense(size, loan->gradient);
    return finish(request);
  }
  const Status added =
      push.add_dense(message.offset(), message.count(), size, std::move(request.frame.tail));
  if (!added) return protocol_error("{}", added.error().message);
  return finish(request);
}

Refused PushAssembly::take(const Request& request, const wire::PushRows& message) {
  bool is_repeat = false;
  if (auto refused = begin(request, message.part(), is_repeat)) return refused;
  if (is_repeat) return {};
  const Status added = request.trainer.push->add_rows(message, state_.parameters.push_widths(),
                                                      std::move(request.frame.tail));
  if (!added) return protocol_error("{}", added.error().message);
  return finish(request);
}

Refused PushAssembly::finish(const Request& request) {
  Trainer& trainer = request.trainer;
  if (!trainer.push->complete()) {
    return state_.replies.acknowledge<wire::Stored>(request, FrameType::kStored);
  }
  // INVARIANT: a push is checked before it waits. Once it waits, it may be merged with pushes of
  // other trainers, and a bad one would spoil their update, too.
  //
  // If the policy holds pushes, every trainer may push as many rows, or have such a push waiting,
  // so there must be room for all of them.
  const std::uint64_t contributors =
      state_.parameters.policy().holds_pushes() ? state_.options.num_gradient_servers : 1;
  auto refused = check_values(trainer.id, *trainer.push);
  if (!refused) {
    refused =
        state_.parameters.make_room(trainer.push->segments(), contributors, state_.membership);
  }
  if (!refused) return request.wait(WaitFor::kUpdate);
  trainer.push.reset();
  return refused;
}

Refused PushAssembly::check_values(std::uint32_t trainer, const Push& push) {
  std::string parameter;
  table::DenseTable* const dense = state_.parameters.dense();
  if (dense != nullptr && push.carries_dense()) {
    GradientParts parts = push.lent();
    if (parts.empty()) parts.push_back(push.dense(scratch_));
    parameter = dense->find_above(state_.parameters.gradient_limit(), parts);
  }
  for (const RowSegment& segment : push.segments()) {
    if (!optim::all_below(segment.floats, state_.parameters.gradient_limit()))
      parameter = state_.parameters.name(segment.parameter);
    const table::SparseTable& table = *state_.parameters.table(segment.parameter);
    const parameter::RowNotes& notes = table.notes();
    for (std::size_t i = 0; notes.size() > 0 && i < segment.ids.size(); ++i) {
      if (notes.valid(segment.floats.data() + i * segment.width + table.width())) continue;
      return protocol_error("trainer {} pushed invalid shows, clicks or slots of '{}' (batch {})",
                            trainer, state_.parameters.name(segment.parameter), push.sequence);
    }
  }
  if (parameter.empty()) return {};
  return Refusal{
      wire::REFUSAL_NOT_FINITE,
      fmt::format("trainer {} pushed a gradient of '{}' that is not finite, or would make "
                  "its values so (batch {})",
                  trainer, parameter, push.sequence),
      "lower the learning rate, or check the data of this batch"};
}

}  // namespace paddle::pserver
