// A shard's trainers that are lost: whom it waits for, and when the job is over.
#include <algorithm>

#include <fmt/format.h>

#include "engine/pserver/shard.h"

namespace paddle::pserver {

void Shard::on_disconnect(TimePoint now, net::PeerId from, std::vector<net::Outgoing>& out) {
  Trainer* const trainer = state_.membership.by_peer(from);
  if (trainer == nullptr) return;
  trainer->connected = false;
  trainer->waiter.reset();
  if (trainer->left) return;
  trainer->lost_at = now;
  on_tick(now, out);
}

void Shard::on_abandon(TimePoint now, Trainer& trainer, const Frame& frame,
                       std::vector<net::Outgoing>& out) {
  wire::Abandon message;
  if (frame.header.server_generation != state_.progress.generation || failure_ || trainer.left ||
      !message.ParseFromString(frame.head)) {
    return;
  }
  // An order to end that one trainer got is no order to the others.
  Errc code = errc_of(message.exit_code());
  if (code == Errc::kInterrupted || code == Errc::kResumable) code = Errc::kFailed;
  // The others of an asynchronous job go on, as they do without one that was killed.
  if (state_.progress.ready && !needs_all_trainers()) return on_lost(now, trainer, out);
  fail({message.is_unreachable() ? wire::REFUSAL_TRAINER_LOST : wire::REFUSAL_ABANDONED,
        fmt::format("trainer {}: {}", trainer.id, message.reason()), message.hint(), code},
       out);
}

bool Shard::needs_all_trainers() const {
  return state_.options.needs_all_trainers || state_.parameters.policy().has_rounds();
}

// A job that has no values to go on from waits for nobody.
Duration Shard::grace() const {
  const bool has_values = state_.progress.ready || !state_.cuts.whole.empty();
  const bool goes_on = (has_values || state_.progress.has_leaver) && !failure_;
  return goes_on && state_.parameters.set().trainers_return() ? state_.options.lost_trainer_grace
                                                              : Duration::zero();
}

// At a stop a trainer that knows of it does not come back, but one may just be on its way here.
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

// A trainer that leaves a pserver which was started again has learned from another one that the job
// is over. Those who wait here learn it there.
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

void Shard::on_lost(TimePoint now, Trainer& trainer, std::vector<net::Outgoing>& out) {
  trainer.lost_at.reset();
  const bool is_needed = needs_all_trainers() || !state_.progress.ready;
  // Whoever leaves has met all others at the end of the last pass, and nothing is missing then; but
  // at a stop trainer 0 still saves.
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

}  // namespace paddle::pserver
