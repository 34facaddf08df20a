#include "engine/pserver/pass_end.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace paddle::pserver {

Refused PassEnd::on_finish(const Request& request, const wire::FinishPass& message) {
  Trainer& trainer = request.trainer;
  if (!state_.progress.ready) return protocol_error("FinishPass before Ready");
  if (state_.progress.passes_finished > 0 &&
      message.pass() == state_.progress.passes_finished - 1 &&
      message.pass() == last_pass_.passes_finished() - 1) {
    answer(trainer, request.id, last_pass_, request.out);
    return {};
  }
  if (message.pass() != state_.progress.passes_finished) {
    return protocol_error("trainer {} finished pass {}, this shard is in pass {}", trainer.id,
                          message.pass(), state_.progress.passes_finished);
  }
  if (message.pause() && state_.progress.pauses > 0 &&
      message.pauses() == state_.progress.pauses - 1) {
    answer(trainer, request.id, last_pause_, request.out);
    return {};
  }
  if (message.pause() && message.pauses() != state_.progress.pauses) {
    return protocol_error("trainer {} asks for pause {} of pass {}, {} have ended", trainer.id,
                          message.pauses(), message.pass(), state_.progress.pauses);
  }
  if (trainer.push) return protocol_error("FinishPass in the middle of a push");
  if (auto refused = take_tally(request, message)) return refused;
  trainer.finished = true;
  trainer.pauses = message.pause();
  return request.wait(WaitFor::kPass);
}

// Tallies are kept by trainer: a repeated request counts once, and the order of arrival leaves no
// trace in their sum.
Refused PassEnd::take_tally(const Request& request, const wire::FinishPass& message) const {
  Trainer& trainer = request.trainer;
  auto tally = decode_tally(request.frame.tail, message.counts(), message.sums());
  if (!tally) return protocol_error("{}", tally.error().message);
  if (!std::ranges::all_of(tally->sums, [](double sum) { return std::isfinite(sum); })) {
    return Refusal{wire::REFUSAL_NOT_FINITE,
                   fmt::format("a sum of trainer {}'s evaluators is not finite", trainer.id)};
  }
  for (const Trainer& other : state_.membership.trainers()) {
    if (other.id == trainer.id || !other.finished || other.tally.same_shape(*tally)) continue;
    return Refusal{wire::REFUSAL_PARAMETERS,
                   fmt::format("the evaluators of trainer {} have {} counts and {} sums, those of "
                               "trainer {} have {} and {}",
                               trainer.id, tally->counts.size(), tally->sums.size(), other.id,
                               other.tally.counts.size(), other.tally.sums.size()),
                   "give all trainers the same job.toml"};
  }
  trainer.tally = *std::move(tally);
  return {};
}

Status PassEnd::try_end(std::vector<net::Outgoing>& out) {
  bool has_finished = false;
  bool pauses = false;
  for (const Trainer& trainer : state_.membership.trainers()) {
    if (trainer.active()) return {};
    has_finished = has_finished || (trainer.finished && !trainer.left);
    pauses = pauses || (trainer.pauses && !trainer.left);
  }
  if (!has_finished) return {};
  if (!pauses) return end(out);
  pause(out);
  return {};
}

void PassEnd::pause(std::vector<net::Outgoing>& out) {
  ++state_.progress.pauses;
  last_pause_ = state_.progress.pass;
  last_pause_.set_paused(true);
  close(last_pause_);
  for (Trainer& trainer : state_.membership.trainers()) trainer.pauses = false;
  answer_all(last_pause_, out);
}

Status PassEnd::end(std::vector<net::Outgoing>& out) {
  ++state_.progress.passes_finished;
  state_.progress.pauses = 0;
  PADDLE_TRY_STATUS(state_.parameters.end_pass(state_.progress.pass));
  last_pass_ = state_.progress.pass;
  close(last_pass_);
  ended_ = statistics();
  state_.progress.pass.Clear();
  for (Trainer& trainer : state_.membership.trainers()) trainer.clock = 0;
  answer_all(last_pass_, out);
  return {};
}

void PassEnd::close(wire::PassFinished& totals) {
  totals.set_passes_finished(state_.progress.passes_finished);
  totals.set_step(state_.progress.step);
  totals.set_job_samples(state_.progress.samples);
  last_tally_ = Tally();
  for (Trainer& trainer : state_.membership.trainers()) {
    if (trainer.finished) last_tally_.add(trainer.tally);
    trainer.finished = false;
    trainer.tally = Tally();
  }
}

void PassEnd::answer_all(const wire::PassFinished& totals, std::vector<net::Outgoing>& out) {
  for (Trainer& trainer : state_.membership.trainers()) {
    if (!trainer.waiter || trainer.waiter->what != WaitFor::kPass) continue;
    const std::uint64_t request = trainer.waiter->request;
    trainer.waiter.reset();
    answer(trainer, request, totals, out);
  }
}

void PassEnd::answer(const Trainer& trainer, std::uint64_t request, wire::PassFinished totals,
                     std::vector<net::Outgoing>& out) const {
  totals.set_request(request);
  totals.set_counts(last_tally_.counts.size());
  totals.set_sums(last_tally_.sums.size());
  state_.replies.send(trainer, FrameType::kPassFinished, totals, encode(last_tally_), out);
}

ShardStatistics PassEnd::statistics() const {
  ShardStatistics all = ended_;
  const wire::PassFinished& pass = state_.progress.pass;
  all.pushes += pass.pushes();
  all.batches += pass.batches();
  const auto buckets = static_cast<std::size_t>(pass.lags_size());
  all.lags.resize(std::max(all.lags.size(), buckets));
  for (std::size_t i = 0; i < buckets; ++i) all.lags[i] += pass.lags(static_cast<int>(i));
  state_.parameters.measure(all);
  return all;
}

}  // namespace paddle::pserver
