#include "engine/pserver/shard.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "engine/table/parameter_set.h"

namespace paddle::pserver {

Shard::Shard(ShardOptions options) : state_(std::move(options)) {
  const std::uint32_t trainers = state_.options.num_gradient_servers;
  PADDLE_CHECK(trainers > 0 && trainers <= kTrainersMax);
  PADDLE_CHECK(state_.options.make_policy != nullptr);
  PADDLE_CHECK(state_.options.loan == nullptr || trainers == 1);  // its pushes never wait
}

void Shard::on_frame(TimePoint now, net::PeerId from, Frame&& frame,
                     std::vector<net::Outgoing>& out) {
  const auto refuse_and_close = [&](const Refusal& refusal) {
    state_.replies.refuse(from, 0, refusal, out);
    out.back().close_after = true;
  };
  if (frame.header.job_tag != state_.options.job_tag) {
    return refuse_and_close(
        {wire::REFUSAL_WRONG_JOB,
         fmt::format("this pserver runs job {:016x}, but the frame belongs to job {:016x}",
                     state_.options.job_tag, frame.header.job_tag)});
  }
  if (frame.header.sender.role == Role::kReader) {
    if (const auto refused = on_reader({from, frame, out})) refuse_and_close(*refused);
    return;
  }
  if (frame.header.type == static_cast<std::uint8_t>(FrameType::kJoin)) {
    if (const auto refused = on_join(now, from, frame, out)) refuse_and_close(*refused);
    return;
  }
  Refusal refusal;
  Trainer* const trainer = state_.membership.find(from, frame.header, refusal);
  if (trainer == nullptr) return refuse_and_close(refusal);
  if (frame.header.type == static_cast<std::uint8_t>(FrameType::kAbandon)) {
    return on_abandon(now, *trainer, frame, out);
  }
  Request request{now, *trainer, frame, out, 0};
  if (const auto refused = dispatch(request)) {
    // A refused batch must leave nothing behind that a later part could complete.
    if (trainer->push && !trainer->push->complete()) trainer->push.reset();
    state_.replies.refuse(from, request.id, *refused, out);
  }
  savepoints_.copy();
}

void Shard::on_disconnect(TimePoint now, net::PeerId from, std::vector<net::Outgoing>& out) {
  Trainer* const trainer = state_.membership.by_peer(from);
  if (trainer == nullptr) return;
  trainer->connected = false;
  trainer->waiter.reset();
  if (trainer->left) return;
  trainer->lost_at = now;
  on_tick(now, out);
}

void Shard::on_tick(TimePoint now, std::vector<net::Outgoing>& out) {
  for (Trainer& trainer : state_.membership.trainers()) {
    if (!trainer.lost_at) continue;
    if (now - *trainer.lost_at >= patience(trainer)) on_lost(now, trainer, out);
  }
  savepoints_.on_tick(now);
  if (state_.progress.ready) try_end_pass(out);  // the end may have waited for a savepoint
  // A trainer that tests or saves sends no frame, but the job goes on. Counting it as progress
  // keeps the waiting trainers from giving up.
  const auto is_busy = [](const Trainer& t) { return t.connected && t.is_busy; };
  if (std::ranges::any_of(state_.membership.trainers(), is_busy)) ++state_.progress.requests;
  send_due_notices(now, state_, out);
  if (failure_ && !lingers_until_) lingers_until_ = now + kFailureLinger;
  has_lingered_ = lingers_until_ && now >= *lingers_until_;
}

Refused Shard::dispatch(Request& request) {
  const FrameHeader& header = request.frame.header;
  // INVARIANT: frames from before a rollback change nothing. A rollback raises the generation, and
  // a trainer's frames have the generation of the last Position that it received.
  if (header.server_generation != state_.progress.generation) {
    return Refusal{wire::REFUSAL_STALE_GENERATION,
                   fmt::format("this pserver has generation {}, but the frame names generation {}",
                               state_.progress.generation, header.server_generation)};
  }
  switch (static_cast<FrameType>(header.type)) {
    case FrameType::kLoadBegin:
      return handle(request, values_, &ValueTransfer::on_load_begin);
    case FrameType::kPutDense:
      return handle(request, values_, &ValueTransfer::on_put_dense);
    case FrameType::kPutRows:
      return handle(request, values_, &ValueTransfer::on_put_rows);
    case FrameType::kGoBack:
      return handle(request, *this, &Shard::on_go_back);
    case FrameType::kReady:
      return handle(request, *this, &Shard::on_ready);
    case FrameType::kPullDense:
      return handle(request, values_, &ValueTransfer::on_pull_dense);
    case FrameType::kPullRows:
      return handle(request, values_, &ValueTransfer::on_pull_rows);
    case FrameType::kPushDense:
      return handle(request, *this, &Shard::on_push<wire::PushDense>);
    case FrameType::kPushRows:
      return handle(request, *this, &Shard::on_push<wire::PushRows>);
    case FrameType::kFinishPass:
      return handle(request, *this, &Shard::on_finish_pass);
    case FrameType::kExportRows:
      return handle(request, values_, &ValueTransfer::on_export);
    case FrameType::kBusy:
      return handle(request, *this, &Shard::on_busy);
    case FrameType::kLeave:
      return handle(request, *this, &Shard::on_leave);
    default:
      return protocol_error("frame type {} is not a request", header.type);
  }
}

template <class Part, class Message>
Refused Shard::handle(Request& request, Part& part,
                      Refused (Part::*handler)(const Request&, const Message&)) {
  Message message;
  if (!message.ParseFromString(request.frame.head)) {
    return protocol_error("a frame of type {} has a malformed head", request.frame.header.type);
  }
  Trainer& trainer = request.trainer;
  request.id = message.request();
  if (request.id < trainer.last_request) return {};  // a late copy of an answered request
  if (request.id == trainer.last_request && trainer.waiter) return {};  // its answer will come
  if (trainer.waiter) {
    return protocol_error("request {} arrived before request {} was answered", request.id,
                          trainer.waiter->request);
  }
  if (request.id > trainer.last_request) ++state_.progress.requests;
  trainer.last_request = request.id;
  constexpr bool is_leave = std::is_same_v<Message, wire::Leave>;
  if (failure_ && !is_leave) return failure_;
  if (trainer.left && !is_leave) {
    return protocol_error("trainer {} has left", trainer.id);
  }
  return (part.*handler)(request, message);
}

// A reader has no request that may wait and no state here, so it can hold nothing up.
Refused Shard::on_reader(const ReaderRequest& request) {
  const FrameHeader& header = request.frame.header;
  const FrameHeader plain{.type = header.type,
                          .job_tag = header.job_tag,
                          .sender = {Role::kReader, 0},
                          .incarnation = header.incarnation};
  if (header != plain) {
    return protocol_error("a field of the header is not 0, as it must be in a reader's frame");
  }
  switch (static_cast<FrameType>(request.frame.header.type)) {
    case FrameType::kDescribe:
      return handle(request, &ValueTransfer::on_describe);
    case FrameType::kPullRows:
      return handle(request, &ValueTransfer::on_read_rows);
    default:
      return protocol_error("frame type {} is not a request of a reader",
                            request.frame.header.type);
  }
}

template <class Message>
Refused Shard::handle(const ReaderRequest& request,
                      Refused (ValueTransfer::*handler)(const ReaderRequest&, const Message&)) {
  Message message;
  if (!message.ParseFromString(request.frame.head)) {
    return protocol_error("a frame of type {} has a malformed head", request.frame.header.type);
  }
  if (!state_.progress.ready) {
    state_.replies.refuse(request.from, message.request(),
                          {wire::REFUSAL_NOT_READY, "the job has no values to read yet"},
                          request.out);
    return {};
  }
  return (values_.*handler)(request, message);
}

// Pushes, and the updates and ends of passes that a request makes possible.

template <class Message>
Refused Shard::on_push(const Request& request, const Message& message) {
  constexpr bool is_dense = std::is_same_v<Message, wire::PushDense>;
  request.trainer.is_busy = false;
  if (is_dense != (state_.parameters.dense() != nullptr)) {
    return is_dense ? protocol_error("a dense push on a sparse port")
                    : protocol_error("a push of rows on a dense port");
  }
  // INVARIANT: a shard applies a push once. A trainer sends a push again if its acknowledgement was
  // lost, and last_applied says whether this shard has it.
  if (state_.progress.ready && request.frame.header.sequence <= request.trainer.last_applied) {
    updates_.reply_pushed(request.trainer, request.id, false, carries_dense(message), request.out);
    return {};
  }
  if (auto refused = pushes_.take(request, message)) return refused;
  advance(request.now, request.out);
  return {};
}

void Shard::advance(TimePoint now, std::vector<net::Outgoing>& out) {
  if (failure_ || !state_.parameters.is_created()) return;
  while (updates_.apply_next(out)) {
    savepoints_.on_update();
    if (state_.parameters.policy().has_rounds()) release_pulls(now, out);
  }
  if (updates_.failure()) fail(*updates_.failure(), out);
}

void Shard::release_pulls(TimePoint now, std::vector<net::Outgoing>& out) {
  for (Trainer& trainer : state_.membership.trainers()) {
    if (!trainer.waiter || trainer.waiter->what != WaitFor::kStep) continue;
    Waiter waiter = std::move(*trainer.waiter);
    trainer.waiter.reset();
    Request request{now, trainer, waiter.frame, out, waiter.request};
    if (const auto refused = dispatch(request)) {
      state_.replies.refuse(trainer.peer, waiter.request, *refused, out);
    }
  }
}

Refused Shard::on_finish_pass(const Request& request, const wire::FinishPass& message) {
  request.trainer.is_busy = false;
  if (auto refused = pass_end_.on_finish(request, message)) return refused;
  advance(request.now, request.out);
  try_end_pass(request.out);
  return {};
}

void Shard::try_end_pass(std::vector<net::Outgoing>& out) {
  if (failure_) return;
  const std::uint64_t passes = state_.progress.passes_finished;
  if (const Status ended = pass_end_.try_end(savepoints_.may_end_pass(), out); !ended) {
    fail({wire::REFUSAL_TRAINER_LOST, ended.error().message}, out);
  }
  if (state_.progress.passes_finished != passes) savepoints_.on_pass_end();
}

Refused Shard::on_busy(const Request& request, const wire::Busy& /*message*/) {
  request.trainer.is_busy = true;
  return state_.replies.acknowledge<wire::Done>(request, FrameType::kDone);
}

// From a trainer's Join to Ready.

Refused Shard::on_join(TimePoint now, net::PeerId from, const Frame& frame,
                       std::vector<net::Outgoing>& out) {
  wire::Join message;
  wire::ParameterSet set;
  if (!message.ParseFromString(frame.head) || frame.tail.size() > kParameterSetBytesMax ||
      !set.ParseFromArray(frame.tail.data(), static_cast<int>(frame.tail.size()))) {
    return protocol_error("malformed Join");
  }
  const std::uint32_t id = frame.header.sender.index;
  if (auto refused = check_join(from, id, message, set)) return refused;
  if (failure_) return failure_;
  if (!state_.parameters.is_created()) {
    if (auto refused = state_.parameters.create(set)) return refused;
    savepoints_.open();
    if (!state_.savepoints.whole.empty()) await_missing(now);
  }
  if (auto refused = state_.membership.join(from, frame.header)) return refused;
  Trainer& trainer = state_.membership.at(id);
  if (message.request() < trainer.last_request) return {};
  trainer.last_request = message.request();
  ++state_.progress.requests;
  if (id == 0 && !state_.progress.ready && state_.progress.is_loading) savepoints_.begin_anew();
  state_.send_position(trainer, message.request(), out);
  return {};
}

Refused Shard::check_join(net::PeerId from, std::uint32_t trainer, const wire::Join& message,
                          const wire::ParameterSet& set) {
  if (message.shard() != state_.options.index || message.is_sparse() != state_.options.is_sparse) {
    const auto kind = [](bool is_sparse) { return is_sparse ? "sparse" : "dense"; };
    return Refusal{wire::REFUSAL_PARAMETERS,
                   fmt::format("this is {} port {} of the job, but trainer {} expects {} port {}",
                               kind(state_.options.is_sparse), state_.options.index, trainer,
                               kind(message.is_sparse()), message.shard()),
                   "list --pservers in the order of --pserver_id, and give pservers and trainers "
                   "the same --ports_num and --ports_num_for_sparse"};
  }
  if (set.num_trainers() != state_.options.num_gradient_servers) {
    return Refusal{wire::REFUSAL_PARAMETERS,
                   fmt::format("num_gradient_servers is {} here, but trainer {} has {}",
                               state_.options.num_gradient_servers, trainer, set.num_trainers()),
                   "start pservers and trainers with the same --num_gradient_servers"};
  }
  if (state_.parameters.is_created()) {
    const std::string difference = parameter::parameter_difference(state_.parameters.set(), set);
    if (!difference.empty()) {
      return Refusal{wire::REFUSAL_PARAMETERS,
                     fmt::format("trainer {} has another parameter set: {}", trainer, difference),
                     "start every trainer with the same configuration"};
    }
  }
  const Trainer* const other = state_.membership.by_peer(from);
  if (other == nullptr || other->id == trainer) return {};
  return protocol_error("trainer {} joined on the connection of trainer {}", trainer, other->id);
}

Refused Shard::on_ready(const Request& request, const wire::Ready& /*message*/) {
  if (request.trainer.id == 0 && !state_.progress.ready) {
    state_.progress.ready = true;
    const bool went_back = std::exchange(state_.progress.went_back, false);
    if (!went_back) state_.progress.passes_loaded = state_.progress.passes_finished;
    savepoints_.on_ready(went_back);
  }
  if (!state_.progress.ready) return request.wait(WaitFor::kReady);
  state_.send_position(request.trainer, request.id, request.out);
  for (Trainer& trainer : state_.membership.trainers()) {
    if (!trainer.waiter || trainer.waiter->what != WaitFor::kReady) continue;
    const std::uint64_t waiting = trainer.waiter->request;
    trainer.waiter.reset();
    state_.send_position(trainer, waiting, request.out);
  }
  return {};
}

// Trainers notice the rollback by the new generation, and join again.
Refused Shard::on_go_back(const Request& request, const wire::GoBack& message) {
  if (request.trainer.id != 0) return protocol_error("only trainer 0 may restore a savepoint");
  if (!std::ranges::count(state_.savepoints.whole, message.savepoint())) {
    return protocol_error("this shard has no savepoint {}", message.savepoint());
  }
  const Refusal stale{wire::REFUSAL_STALE_GENERATION,
                      "this pserver was restored from an earlier savepoint"};
  for (Trainer& trainer : state_.membership.trainers()) {
    if (!trainer.waiter) continue;
    state_.replies.refuse(trainer.peer, trainer.waiter->request, stale, request.out);
    trainer.waiter.reset();
  }
  net::keep_views(request.out);
  if (const Status done = savepoints_.go_back(message.savepoint()); !done) {
    fail({wire::REFUSAL_TRAINER_LOST, done.error().message}, request.out);
    return failure_;
  }
  await_missing(request.now);
  state_.send_position(request.trainer, request.id, request.out);
  return {};
}

// Lost trainers: how long the shard waits for them, and whether the job goes on without them.

void Shard::on_abandon(TimePoint now, Trainer& trainer, const Frame& frame,
                       std::vector<net::Outgoing>& out) {
  wire::Abandon message;
  if (frame.header.server_generation != state_.progress.generation || failure_ || trainer.left ||
      !message.ParseFromString(frame.head)) {
    return;
  }
  // These codes mean that the trainer was ordered to end. The others had no such order and fail.
  Errc code = errc_of(message.exit_code());
  if (code == Errc::kInterrupted || code == Errc::kResumable) code = Errc::kFailed;
  // In an asynchronous job the other trainers go on, as they do after one was killed.
  if (state_.progress.ready && !needs_all_trainers()) return on_lost(now, trainer, out);
  fail({message.is_unreachable() ? wire::REFUSAL_TRAINER_LOST : wire::REFUSAL_ABANDONED,
        fmt::format("trainer {}: {}", trainer.id, message.reason()), message.hint(), code},
       out);
}

void Shard::on_lost(TimePoint now, Trainer& trainer, std::vector<net::Outgoing>& out) {
  trainer.lost_at.reset();
  const bool is_needed = needs_all_trainers() || !state_.progress.ready;
  // Once another trainer has left, all trainers have passed the barrier after the last pass, so
  // this trainer owes nothing. But at a stop trainer 0 still saves.
  if (is_needed && (state_.progress.stop || !state_.membership.any_other_left(trainer))) {
    return fail({wire::REFUSAL_TRAINER_LOST,
                 fmt::format("trainer {} lost at step {}", trainer.id, state_.progress.step)},
                out);
  }
  trainer.left = true;
  trainer.push.reset();
  advance(now, out);
  try_end_pass(out);
}

bool Shard::needs_all_trainers() const {
  return state_.options.needs_all_trainers || state_.parameters.policy().has_rounds();
}

// A job without values to continue from does not wait for lost trainers.
Duration Shard::grace() const {
  const bool has_values = state_.progress.ready || !state_.savepoints.whole.empty();
  const bool goes_on = (has_values || state_.progress.has_leaver) && !failure_;
  return goes_on && state_.parameters.set().trainers_return() ? state_.options.lost_trainer_grace
                                                              : Duration::zero();
}

// At a stop, a trainer that knows of it does not return; one that does not know may just be joining
// again.
Duration Shard::patience(const Trainer& trainer) const {
  if (state_.progress.stop && trainer.knows_of_stop) return Duration::zero();
  const bool is_ending = state_.progress.stop || state_.membership.any_other_left(trainer);
  return is_ending ? std::min(grace(), kLastTrainerGrace) : grace();
}

void Shard::await_missing(TimePoint now) {
  for (Trainer& trainer : state_.membership.trainers()) {
    trainer.lost_at.reset();
    const bool is_missing = !trainer.connected && !trainer.left;
    if (is_missing && grace() > Duration::zero()) trainer.lost_at = now;
  }
}

// The end of the job for this port.

Refused Shard::on_leave(const Request& request, const wire::Leave& /*message*/) {
  request.trainer.left = state_.progress.has_leaver = true;
  request.trainer.push.reset();
  state_.replies.acknowledge<wire::Done>(request, FrameType::kDone);
  if (failure_) return {};
  if (!state_.progress.ready && state_.options.server_generation > kFirstIncarnation) {
    on_job_over(request);
    return {};
  }
  if (!state_.progress.ready && request.trainer.id == 0) {
    fail({wire::REFUSAL_TRAINER_LOST, "trainer 0 left before the parameters were ready"},
         request.out);
    return {};
  }
  advance(request.now, request.out);
  try_end_pass(request.out);
  return {};
}

// A trainer that leaves a restarted pserver has received from another pserver that the job is over.
// Refuses the requests of the trainers that wait here, so that they ask the other pservers, too.
void Shard::on_job_over(const Request& request) {
  const Refusal over{wire::REFUSAL_TRAINER_LOST, "the other trainers have left this job"};
  for (Trainer& trainer : state_.membership.trainers()) {
    const bool is_missing = !trainer.connected && !trainer.left;
    if (is_missing && !trainer.lost_at) trainer.lost_at = request.now;
    if (!trainer.waiter) continue;
    state_.replies.refuse(trainer.peer, trainer.waiter->request, over, request.out);
    trainer.waiter.reset();
  }
}

void Shard::fail(Refusal why, std::vector<net::Outgoing>& out) {
  if (!failure_) failure_ = std::move(why);
  for (Trainer& trainer : state_.membership.trainers()) {
    if (trainer.waiter && trainer.connected) {
      state_.replies.refuse(trainer.peer, trainer.waiter->request, *failure_, out);
    }
    trainer.waiter.reset();
  }
}

}  // namespace paddle::pserver
