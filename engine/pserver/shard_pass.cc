// The end of a pass on a shard: every trainer has said so, totals go back, tables age.
#include <algorithm>

#include <fmt/format.h>

#include "engine/pserver/shard.h"

namespace paddle::pserver {

Shard::Refused Shard::on_finish_pass(Call& call, const wire::FinishPass& message) {
  if (!ready_) return protocol_error("FinishPass before Ready");
  if (message.pause() && call.request == call.trainer.paused_request) {
    reply_pass_finished(call.trainer, call.request, last_pause_, last_tally_, call.out);
    return {};
  }
  if (message.pass() + 1 == passes_finished_ &&
      message.pass() == last_pass_.passes_finished() - 1) {
    reply_pass_finished(call.trainer, call.request, last_pass_, last_tally_, call.out);
    return {};
  }
  if (message.pass() != passes_finished_) {
    return protocol_error(fmt::format("trainer {} finished pass {}, this shard is in pass {}",
                                      call.trainer.id, message.pass(), passes_finished_));
  }
  if (call.trainer.push) return protocol_error("FinishPass in the middle of a push");
  if (auto refused = take_tally(call, message)) return refused;
  call.trainer.finished = true;
  call.trainer.pauses = message.pause();
  wait(call, WaitFor::kPass);
  advance(call.now, call.out);
  try_finish_pass(call.out);
  return {};
}

// Kept by trainer, so that a request that comes again counts once and arrival leaves no trace.
Shard::Refused Shard::take_tally(Call& call, const wire::FinishPass& message) {
  auto tally = decode_tally(call.frame.tail, message.counts(), message.sums());
  if (!tally) return protocol_error(tally.error().message);
  for (const Trainer& other : membership_.trainers()) {
    if (other.id == call.trainer.id || !other.finished || other.tally.same_shape(*tally)) continue;
    return Refusal{wire::REFUSAL_PARAMETERS,
                   fmt::format("the evaluators of trainer {} have {} counts and {} sums, those of "
                               "trainer {} have {} and {}",
                               call.trainer.id, tally->counts.size(), tally->sums.size(), other.id,
                               other.tally.counts.size(), other.tally.sums.size()),
                   "give all trainers the same job.toml"};
  }
  call.trainer.tally = *std::move(tally);
  return {};
}

void Shard::reply_pass_finished(const Trainer& trainer, std::uint64_t request,
                                wire::PassFinished message, const Tally& tally,
                                std::vector<net::Outgoing>& out) {
  message.set_request(request);
  message.set_counts(tally.counts.size());
  message.set_sums(tally.sums.size());
  reply(trainer, FrameType::kPassFinished, message, encode(tally), out);
}

void Shard::pause(std::vector<net::Outgoing>& out) {
  last_pause_ = totals_;
  last_pause_.set_passes_finished(passes_finished_);
  last_pause_.set_step(step_);
  last_pause_.set_job_samples(samples_);
  last_pause_.set_paused(true);
  last_tally_ = Tally();
  for (Trainer& trainer : membership_.trainers()) {
    if (trainer.finished) last_tally_.add(trainer.tally);
    trainer.finished = trainer.pauses = false;
    trainer.tally = Tally();
  }
  for (Trainer& trainer : membership_.trainers()) {
    if (!trainer.waiter || trainer.waiter->what != WaitFor::kPass) continue;
    trainer.paused_request = trainer.waiter->request;
    trainer.waiter.reset();
    reply_pass_finished(trainer, trainer.paused_request, last_pause_, last_tally_, out);
  }
}

ShardStatistics Shard::statistics() const {
  ShardStatistics all = ended_;
  all.pushes += totals_.pushes();
  all.batches += totals_.batches();
  const auto buckets = static_cast<std::size_t>(totals_.lags_size());
  all.lags.resize(std::max(all.lags.size(), buckets));
  for (std::size_t i = 0; i < buckets; ++i) all.lags[i] += totals_.lags(static_cast<int>(i));
  all.rows = 0;
  all.bytes = dense_ ? dense_->size() * (1 + dense_->state_width()) * sizeof(float) : 0;
  for (const auto& table : tables_) {
    if (!table) continue;
    all.rows += table->rows();
    all.bytes += table->bytes();
  }
  return all;
}

void Shard::try_finish_pass(std::vector<net::Outgoing>& out) {
  if (failure_) return;
  bool has_finished = false;
  bool pauses = false;
  for (const Trainer& trainer : membership_.trainers()) {
    if (trainer.active()) return;
    has_finished = has_finished || (trainer.finished && !trainer.left);
    pauses = pauses || (trainer.pauses && !trainer.left);
  }
  if (!has_finished) return;
  if (pauses) return pause(out);
  ++passes_finished_;
  totals_.set_passes_finished(passes_finished_);
  for (std::uint32_t parameter = 0; parameter < tables_.size(); ++parameter) {
    if (!tables_[parameter]) continue;
    table::SparseTable& table = *tables_[parameter];
    const auto expired = table.end_pass();
    if (!expired) return fail(expired.error().message, out);
    wire::TableStatus& status = *totals_.add_tables();
    status.set_parameter(parameter);
    status.set_rows(table.rows());
    status.set_bytes(table.bytes());
    status.set_payload_bytes(table.payload_bytes());
    status.set_candidates(table.entry().candidates());
    status.set_expired(*expired);
    status.set_evicted(table.take_evicted());
    status.set_shrunk(table.take_shrunk());
  }
  totals_.set_step(step_);
  totals_.set_job_samples(samples_);
  last_pass_ = totals_;
  ended_ = statistics();
  totals_.Clear();
  last_tally_ = Tally();
  for (Trainer& trainer : membership_.trainers()) {
    if (trainer.finished) last_tally_.add(trainer.tally);
    trainer.finished = false;
    trainer.clock = 0;
    trainer.tally = Tally();
  }
  for (Trainer& trainer : membership_.trainers()) {
    if (!trainer.waiter || trainer.waiter->what != WaitFor::kPass) continue;
    const std::uint64_t request = trainer.waiter->request;
    trainer.waiter.reset();
    reply_pass_finished(trainer, request, last_pass_, last_tally_, out);
  }
}

}  // namespace paddle::pserver
