#include "engine/pserver/shard.h"

#include <fmt/format.h>

#include "base/text.h"
#include "engine/parameter/parameter_set.h"
#include "engine/pserver/parameter_difference.h"

namespace paddle::pserver {
namespace {

constexpr std::size_t kRefusalBytesMax = 4096;  // of its text, before escapes

}  // namespace

Shard::Shard(ShardOptions options) : options_(options), membership_(options.num_gradient_servers) {
  PADDLE_CHECK(options.num_gradient_servers > 0 && options.num_gradient_servers <= kTrainersMax);
  PADDLE_CHECK(options.make_policy != nullptr);
}

const table::SparseTable* Shard::sparse(std::uint32_t parameter) const {
  return parameter < tables_.size() ? tables_[parameter].get() : nullptr;
}

FrameHeader Shard::reply_header(FrameType type) const {
  FrameHeader header;
  header.type = static_cast<std::uint8_t>(type);
  header.job_tag = options_.job_tag;
  header.sender = {Role::kPserver, options_.index};
  header.epoch = options_.epoch;
  header.step = step_;
  return header;
}

void Shard::refuse(net::PeerId to, std::uint64_t request, const Refusal& refusal,
                   std::vector<net::Outgoing>& out) const {
  wire::Refused message;
  message.set_request(request);
  message.set_code(refusal.code);
  // It may quote the peer. A character that is cut becomes its bytes' escapes.
  message.set_message(escape_control(refusal.message.substr(0, kRefusalBytesMax)));
  message.set_hint(refusal.hint);
  net::Outgoing outgoing;
  outgoing.to = to;
  outgoing.frame.header = reply_header(FrameType::kRefused);
  outgoing.frame.head = message.SerializeAsString();
  out.push_back(std::move(outgoing));
}

void Shard::on_frame(TimePoint now, net::PeerId from, Frame&& frame,
                     std::vector<net::Outgoing>& out) {
  if (frame.header.job_tag != options_.job_tag) {
    const Refusal refusal{wire::REFUSAL_WRONG_JOB,
                          fmt::format("this pserver runs job {:016x}, the frame is of job {:016x}",
                                      options_.job_tag, frame.header.job_tag),
                          ""};
    refuse(from, 0, refusal, out);
    out.back().close_after = true;
    return;
  }
  if (frame.header.type == static_cast<std::uint8_t>(FrameType::kJoin)) {
    if (const auto refused = on_join(now, from, frame, out)) {
      refuse(from, 0, *refused, out);
      out.back().close_after = true;
    }
    return;
  }
  Refusal refusal;
  Trainer* const trainer = membership_.find(from, frame.header, refusal);
  if (trainer == nullptr) {
    refuse(from, 0, refusal, out);
    out.back().close_after = true;
    return;
  }
  Call call{now, *trainer, frame, out, 0};
  if (const auto refused = dispatch(call)) {
    // A refused batch must leave nothing behind that a later part could complete.
    if (trainer->push && !trainer->push->complete()) trainer->push.reset();
    refuse(from, call.request, *refused, out);
  }
}

Shard::Refused Shard::dispatch(Call& call) {
  if (call.frame.header.epoch != options_.epoch) {
    return Refusal{wire::REFUSAL_STALE_EPOCH,
                   fmt::format("this pserver is in epoch {}, the frame names epoch {}",
                               options_.epoch, call.frame.header.epoch),
                   ""};
  }
  switch (static_cast<FrameType>(call.frame.header.type)) {
    case FrameType::kLoadBegin:
      return handle(call, &Shard::on_load_begin);
    case FrameType::kPutDense:
      return handle(call, &Shard::on_put_dense);
    case FrameType::kPutRows:
      return handle(call, &Shard::on_put_rows);
    case FrameType::kReady:
      return handle(call, &Shard::on_ready);
    case FrameType::kPullDense:
      return handle(call, &Shard::on_pull_dense);
    case FrameType::kPullRows:
      return handle(call, &Shard::on_pull_rows);
    case FrameType::kPushDense:
      return handle(call, &Shard::on_push_dense);
    case FrameType::kPushRows:
      return handle(call, &Shard::on_push_rows);
    case FrameType::kFinishPass:
      return handle(call, &Shard::on_finish_pass);
    case FrameType::kExportRows:
      return handle(call, &Shard::on_export_rows);
    case FrameType::kLeave:
      return handle(call, &Shard::on_leave);
    default:
      return Refusal{wire::REFUSAL_PROTOCOL,
                     fmt::format("frame type {} is no request", call.frame.header.type), ""};
  }
}

template <class Message>
Shard::Refused Shard::handle(Call& call, Refused (Shard::*handler)(Call&, const Message&)) {
  Message message;
  if (!message.ParseFromString(call.frame.head)) {
    return Refusal{wire::REFUSAL_PROTOCOL,
                   fmt::format("frame of type {} has a malformed head", call.frame.header.type),
                   ""};
  }
  Trainer& trainer = call.trainer;
  call.request = message.request();
  if (call.request < trainer.last_request) return {};  // a late copy of an answered request
  if (call.request == trainer.last_request && trainer.waiter) return {};  // its answer will come
  if (trainer.waiter) {
    return Refusal{wire::REFUSAL_PROTOCOL,
                   fmt::format("request {} while request {} is not answered", call.request,
                               trainer.waiter->request),
                   ""};
  }
  if (call.request > trainer.last_request) ++progress_;
  trainer.last_request = call.request;
  constexpr bool is_leave = std::is_same_v<Message, wire::Leave>;
  if (failure_ && !is_leave) return failure_;
  if (trainer.left && !is_leave) {
    return Refusal{wire::REFUSAL_PROTOCOL, fmt::format("trainer {} has left", trainer.id), ""};
  }
  return (this->*handler)(call, message);
}

Shard::Refused Shard::on_join(TimePoint now, net::PeerId from, Frame& frame,
                              std::vector<net::Outgoing>& out) {
  wire::Join message;
  wire::ParameterSet set;
  if (!message.ParseFromString(frame.head) || frame.tail.size() > kParameterSetBytesMax ||
      !set.ParseFromArray(frame.tail.data(), static_cast<int>(frame.tail.size()))) {
    return Refusal{wire::REFUSAL_PROTOCOL, "malformed Join", ""};
  }
  const std::uint32_t id = frame.header.sender.index;
  if (message.shard() != options_.index || message.is_sparse() != options_.is_sparse) {
    const auto kind = [](bool is_sparse) { return is_sparse ? "sparse" : "dense"; };
    return Refusal{wire::REFUSAL_PARAMETERS,
                   fmt::format("this is {} port {} of the job, trainer {} expects {} port {}",
                               kind(options_.is_sparse), options_.index, id,
                               kind(message.is_sparse()), message.shard()),
                   "list --pservers in the order of --pserver_id, and give pservers and trainers "
                   "the same --ports_num and --ports_num_for_sparse"};
  }
  if (set.num_trainers() != options_.num_gradient_servers) {
    return Refusal{wire::REFUSAL_PARAMETERS,
                   fmt::format("num_gradient_servers is {} here, trainer {} has {}",
                               options_.num_gradient_servers, id, set.num_trainers()),
                   "start pservers and trainers with the same --num_gradient_servers"};
  }
  if (set_) {
    if (const std::string difference = parameter_difference(*set_, set); !difference.empty()) {
      return Refusal{wire::REFUSAL_PARAMETERS,
                     fmt::format("trainer {} has another parameter set: {}", id, difference),
                     "start every trainer with the same configuration"};
    }
  }
  if (const Trainer* other = membership_.by_peer(from); other != nullptr && other->id != id) {
    return Refusal{wire::REFUSAL_PROTOCOL,
                   fmt::format("trainer {} joined on the connection of trainer {}", id, other->id),
                   ""};
  }
  if (failure_) return failure_;
  if (!set_) {
    if (auto refused = set_up(set)) return refused;
  }
  if (auto refused = membership_.join(from, frame.header)) return refused;
  Trainer& trainer = membership_.at(id);
  if (message.request() < trainer.last_request) return {};
  trainer.last_request = message.request();
  ++progress_;
  Call call{now, trainer, frame, out, message.request()};
  reply_position(call);
  return {};
}

Shard::Refused Shard::set_up(const wire::ParameterSet& set) {
  const std::uint32_t shards = options_.is_sparse ? set.sparse_shards() : set.dense_shards();
  if (options_.index >= shards) {
    return Refusal{wire::REFUSAL_PARAMETERS,
                   fmt::format("this is {} port {} of the job, the trainer knows {}",
                               options_.is_sparse ? "sparse" : "dense", options_.index, shards),
                   "give pservers and trainers the same ports"};
  }
  if (const Status valid = parameter::validate(set); !valid) {
    return Refusal{wire::REFUSAL_PARAMETERS, valid.error().message, valid.error().hint};
  }
  policy_ = options_.make_policy(set, options_.is_sparse);
  widths_.assign(static_cast<std::size_t>(set.parameters_size()), 0);
  push_widths_ = widths_;
  if (!options_.is_sparse) {
    auto table =
        table::DenseTable::create(set, options_.index, options_.bytes_max, options_.parallel);
    if (!table) return Refusal{wire::REFUSAL_LIMIT, table.error().message, table.error().hint};
    dense_ = *std::move(table);
    if (auto refused = set_up_compensation(set)) return refused;
  } else {
    tables_.resize(widths_.size());
    for (std::uint32_t i = 0; i < widths_.size(); ++i) {
      const auto& spec = set.parameters(static_cast<int>(i));
      if (!spec.sparse()) continue;
      tables_[i] =
          std::make_unique<table::SparseTable>(set, i, options_.parallel, options_.preparer);
      widths_[i] = tables_[i]->width();
      push_widths_[i] = tables_[i]->push_width();
    }
  }
  set_ = set;
  return {};
}

void Shard::reply_position(Call& call) {
  wire::Position message;
  message.set_request(call.request);
  message.set_last_applied(call.trainer.last_applied);
  message.set_step(step_);
  message.set_passes_finished(passes_finished_);
  message.set_ready(ready_);
  message.set_samples(samples_);
  for (const Trainer& trainer : membership_.trainers()) {
    message.add_cursors(trainer.last_applied);
    message.add_pass_batches(trainer.clock);
  }
  call.trainer.seen_updates = updates_;
  reply(call.trainer, FrameType::kPosition, message, {}, call.out);
}

Shard::Refused Shard::on_ready(Call& call, const wire::Ready&) {
  if (call.trainer.id == 0) ready_ = true;
  if (!ready_) {
    wait(call, WaitFor::kReady);
    return {};
  }
  reply_position(call);
  for (Trainer& trainer : membership_.trainers()) {
    if (!trainer.waiter || trainer.waiter->what != WaitFor::kReady) continue;
    Call other{call.now, trainer, call.frame, call.out, trainer.waiter->request};
    trainer.waiter.reset();
    reply_position(other);
  }
  return {};
}

Shard::Refused Shard::on_leave(Call& call, const wire::Leave& message) {
  wire::Done done;
  done.set_request(message.request());
  call.trainer.left = true;
  call.trainer.push.reset();
  reply(call.trainer, FrameType::kDone, done, {}, call.out);
  if (failure_) return {};
  if (!ready_ && call.trainer.id == 0) {
    fail("trainer 0 left before the parameters were ready", call.out);
    return {};
  }
  advance(call.now, call.out);
  try_finish_pass(call.out);
  return {};
}

void Shard::wait(Call& call, WaitFor what) {
  Waiter waiter{what, call.request, call.now + kNoticePeriod, {}};
  if (what == WaitFor::kStep) waiter.frame = std::move(call.frame);
  call.trainer.waiter = std::move(waiter);
}

void Shard::fail(std::string message, std::vector<net::Outgoing>& out) {
  if (!failure_) failure_ = Refusal{wire::REFUSAL_TRAINER_LOST, std::move(message), ""};
  for (Trainer& trainer : membership_.trainers()) {
    if (trainer.waiter && trainer.connected) {
      refuse(trainer.peer, trainer.waiter->request, *failure_, out);
    }
    trainer.waiter.reset();
  }
}

void Shard::on_disconnect(TimePoint now, net::PeerId from, std::vector<net::Outgoing>& out) {
  Trainer* const trainer = membership_.by_peer(from);
  if (trainer == nullptr) return;
  trainer->connected = false;
  trainer->waiter.reset();
  if (trainer->left) return;
  trainer->lost_at = now;
  on_tick(now, out);
}

void Shard::on_tick(TimePoint now, std::vector<net::Outgoing>& out) {
  for (Trainer& trainer : membership_.trainers()) {
    if (!trainer.lost_at || now - *trainer.lost_at < options_.lost_trainer_grace) continue;
    trainer.lost_at.reset();
    if (policy_->has_rounds() || !ready_ || options_.needs_all_trainers) {
      fail(fmt::format("trainer {} lost at step {}", trainer.id, step_), out);
    } else {
      trainer.left = true;  // async: the others need nothing from it
      trainer.push.reset();
      advance(now, out);
      try_finish_pass(out);
    }
  }
  for (Trainer& trainer : membership_.trainers()) {
    if (trainer.waiter && now >= trainer.waiter->next_notice) notice(now, trainer, out);
  }
}

void Shard::notice(TimePoint now, Trainer& trainer, std::vector<net::Outgoing>& out) {
  wire::Waiting message;
  bool all_connected = true;
  std::string reason;
  switch (trainer.waiter->what) {
    case WaitFor::kReady:
      reason = membership_.names([](const Trainer& t) { return t.id == 0; }, all_connected) +
               " to say that initial values are in place";
      break;
    case WaitFor::kStep:
    case WaitFor::kUpdate:
      reason = policy_->blockers(membership_, step_, all_connected);
      break;
    case WaitFor::kPass:
      reason = membership_.names([](const Trainer& t) { return t.active(); }, all_connected) +
               fmt::format(" to finish pass {}", passes_finished_);
      break;
  }
  message.set_request(trainer.waiter->request);
  message.set_reason(reason);
  message.set_all_connected(all_connected);
  message.set_progress(progress_);
  trainer.waiter->next_notice = now + kNoticePeriod;
  reply(trainer, FrameType::kWaiting, message, {}, out);
}

}  // namespace paddle::pserver
