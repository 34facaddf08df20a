#include "engine/pserver/pass_end.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace paddle::pserver {

Refused PassEnd::on_finish(const Request& request, const wire::FinishPass& message) {
  Trainer& trainer = request.trainer;
  if (!state_.progress.ready) return protocol_error("FinishPass before Ready");
  if (answer_repeat(request, message)) return {};
  if (message.pass() != state_.progress.passes_finished) {
    return protocol_error("trainer {} finished pass {}, but this shard is in pass {}", trainer.id,
                          message.pass(), state_.progress.passes_finished);
  }
  if (message.pause() && message.pauses() != state_.progress.pauses) {
    return protocol_error("trainer {} asks for pause {} of pass {}, but {} have ended", trainer.id,
                          message.pauses(), message.pass(), state_.progress.pauses);
  }
  if (trainer.push) return protocol_error("FinishPass in the middle of a push");
  if (auto refused = take_tally(request, message)) return refused;
  trainer.finished = true;
  trainer.pauses = message.pause();
  return request.wait(WaitFor::kPass);
}

// The answer to a pause says only that it is over, so the last one also answers earlier pauses.
bool PassEnd::answer_repeat(const Request& request, const wire::FinishPass& message) const {
  const bool is_over = message.pass() < state_.progress.passes_finished ||
                       (message.pass() == state_.progress.passes_finished && message.pause() &&
                        message.pauses() < state_.progress.pauses);
  if (!is_over) return false;
  const auto is_pass = [&](const Ended& ended) {
    return ended.totals.passes_finished() == message.pass() + 1;
  };
  const auto found = std::ranges::find_if(passes_, is_pass);
  if (message.pause() ? !pause_.totals.paused() : found == passes_.end()) return false;
  answer(request.trainer, request.id, message.pause() ? pause_ : *found, request.out);
  return true;
}

// Tallies are kept by trainer, so that a repeated request counts once, and the order of arrival
// does not change their sum.
Refused PassEnd::take_tally(const Request& request, const wire::FinishPass& message) const {
  Trainer& trainer = request.trainer;
  auto tally = decode_tally(request.frame.tail, message.counts(), message.sums(),
                            message.histograms(), message.grouped());
  if (!tally) return protocol_error("{}", tally.error().message);
  if (!std::ranges::all_of(tally->sums, [](double sum) { return std::isfinite(sum); })) {
    return Refusal{wire::REFUSAL_NOT_FINITE,
                   fmt::format("a sum of trainer {}'s evaluators is not finite", trainer.id)};
  }
  for (const Trainer& other : state_.membership.trainers()) {
    if (other.id == trainer.id || !other.finished || other.tally.same_shape(*tally)) continue;
    return Refusal{wire::REFUSAL_PARAMETERS,
                   fmt::format("the evaluators of trainer {} have {} counts, {} sums, {} "
                               "histograms and {} scores by group, those of trainer {} have {}, "
                               "{}, {} and {}",
                               trainer.id, tally->counts.size(), tally->sums.size(),
                               tally->histograms.size(), tally->grouped.size(), other.id,
                               other.tally.counts.size(), other.tally.sums.size(),
                               other.tally.histograms.size(), other.tally.grouped.size()),
                   "give all trainers the same job.toml"};
  }
  trainer.tally = *std::move(tally);
  return {};
}

Status PassEnd::try_end(bool may_end, std::vector<net::Outgoing>& out) {
  bool has_finished = false;
  bool pauses = false;
  for (const Trainer& trainer : state_.membership.trainers()) {
    if (trainer.active()) return {};
    has_finished = has_finished || (trainer.finished && !trainer.left);
    pauses = pauses || (trainer.pauses && !trainer.left);
  }
  if (!has_finished) return {};
  if (!pauses) return may_end ? end(out) : Status();
  pause(out);
  return {};
}

void PassEnd::pause(std::vector<net::Outgoing>& out) {
  ++state_.progress.pauses;
  pause_ = close();
  pause_.totals.set_paused(true);
  for (Trainer& trainer : state_.membership.trainers()) {
    trainer.pauses = false;
    trainer.knows_of_stop = trainer.connected && state_.progress.stop;
  }
  answer_all(pause_, out);
}

Status PassEnd::end(std::vector<net::Outgoing>& out) {
  ++state_.progress.passes_finished;
  state_.progress.pauses = 0;
  PADDLE_TRY_STATUS(state_.parameters.end_pass(state_.progress.pass));
  passes_.push_back(close());
  if (passes_.size() > kEndedPasses) passes_.pop_front();
  counted_ = statistics();
  state_.progress.pass.Clear();
  for (Trainer& trainer : state_.membership.trainers()) trainer.clock = 0;
  answer_all(passes_.back(), out);
  return {};
}

PassEnd::Ended PassEnd::close() {
  Ended ended{state_.progress.pass, {}};
  ended.totals.set_passes_finished(state_.progress.passes_finished);
  ended.totals.set_step(state_.progress.step);
  ended.totals.set_job_samples(state_.progress.samples);
  for (Trainer& trainer : state_.membership.trainers()) {
    if (trainer.finished) ended.tally.add(trainer.tally);
    trainer.finished = false;
    trainer.tally = Tally();
  }
  return ended;
}

void PassEnd::answer_all(const Ended& ended, std::vector<net::Outgoing>& out) {
  for (Trainer& trainer : state_.membership.trainers()) {
    if (!trainer.waiter || trainer.waiter->what != WaitFor::kPass) continue;
    const std::uint64_t request = trainer.waiter->request;
    trainer.waiter.reset();
    answer(trainer, request, ended, out);
  }
}

void PassEnd::answer(const Trainer& trainer, std::uint64_t request, const Ended& ended,
                     std::vector<net::Outgoing>& out) const {
  wire::PassFinished totals = ended.totals;
  totals.set_request(request);
  totals.set_step(state_.progress.step);  // a repeat may arrive rounds later
  totals.set_counts(ended.tally.counts.size());
  totals.set_sums(ended.tally.sums.size());
  totals.set_histograms(ended.tally.histograms.size());
  totals.set_grouped(ended.tally.grouped.size());
  state_.replies.send(trainer, FrameType::kPassFinished, totals, encode(ended.tally), out);
}

void PassEnd::save(wire::SavepointState& savepoint) const {
  const auto add = [](const Ended& ended, wire::SavepointPassEnd& to) {
    *to.mutable_totals() = ended.totals;
    to.mutable_totals()->set_counts(ended.tally.counts.size());
    to.mutable_totals()->set_sums(ended.tally.sums.size());
    to.mutable_totals()->set_histograms(ended.tally.histograms.size());
    to.mutable_totals()->set_grouped(ended.tally.grouped.size());
    const Bytes tally = encode(ended.tally);
    to.set_tally(tally.data(), tally.size());
  };
  for (const Ended& ended : passes_) add(ended, *savepoint.add_ended());
  add(pause_, *savepoint.mutable_pause());
}

Status PassEnd::restore(const wire::SavepointState& savepoint) {
  const auto read = [](const wire::SavepointPassEnd& from) -> Result<Ended> {
    const auto bytes = as_bytes(from.tally());
    PADDLE_TRY(Tally tally, decode_tally(bytes, from.totals().counts(), from.totals().sums(),
                                         from.totals().histograms(), from.totals().grouped()));
    return Ended{from.totals(), std::move(tally)};
  };
  passes_.clear();
  for (const wire::SavepointPassEnd& ended : savepoint.ended()) {
    PADDLE_TRY(Ended one, read(ended));
    passes_.push_back(std::move(one));
  }
  PADDLE_TRY(pause_, read(savepoint.pause()));
  return {};
}

void PassEnd::forget() {
  passes_.clear();
  pause_ = {};
}

ShardStatistics PassEnd::statistics() const {
  ShardStatistics all = counted_;
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
