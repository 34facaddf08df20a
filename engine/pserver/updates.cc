#include "engine/pserver/updates.h"

#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace paddle::pserver {
namespace {

// Buckets of the histogram of lags: 0, 1, 2-3, 4-7, ...; the last takes all above.
constexpr int kLagBuckets = 16;
constexpr std::size_t kTrainersNamed = 8;  // in an error

void count_lag(wire::PassFinished& totals, std::uint64_t lag) {
  const int bucket = std::min(static_cast<int>(std::bit_width(lag)), kLagBuckets - 1);
  while (totals.lags_size() <= bucket) totals.add_lags(0);
  totals.set_lags(bucket, totals.lags(bucket) + 1);
}

// Each single gradient was below the limit, so a high learning rate, many updates, or the sum of
// several gradients is the cause.
Refusal not_finite(const std::string& parameter, std::span<Trainer* const> trainers) {
  std::vector<std::uint32_t> ids;
  for (const Trainer* trainer : trainers) ids.push_back(trainer->id);
  const bool is_long = ids.size() > kTrainersNamed;
  if (is_long) ids.resize(kTrainersNamed);
  return {wire::REFUSAL_NOT_FINITE,
          fmt::format("the gradients of batch {} of trainer{} {}{} made values of '{}' or their "
                      "optimizer's state not finite",
                      trainers.front()->push->sequence, trainers.size() > 1 ? "s" : "",
                      fmt::join(ids, ", "), is_long ? " and others" : "", parameter),
          "lower optimizer.learning_rate, or bound gradients with optimizer.clip_global_norm"};
}

}  // namespace

bool Updates::apply_next(std::vector<net::Outgoing>& out) {
  const UpdatePolicy& policy = state_.parameters.policy();
  const std::vector<Trainer*> trainers = policy.next_update(state_.membership);
  if (trainers.empty()) return false;
  net::keep_views(out);
  std::vector<const Push*> pushes;
  std::uint64_t lag = 0;
  for (const Trainer* trainer : trainers) {
    pushes.push_back(&*trainer->push);
    state_.progress.samples += trainer->push->samples;
    lag = std::max(lag, state_.progress.updates - trainer->seen_updates);
  }
  const bool is_discarded = policy.discards(lag);
  if (!is_discarded) {
    const float learning_rate =
        policy.learning_rate(state_.parameters.set().optimizer(),
                             {state_.progress.samples, state_.progress.passes_finished});
    const std::string broken = apply(learning_rate, pushes);
    if (!broken.empty()) {
      failure_ = not_finite(broken, trainers);
      return false;
    }
  }
  ++state_.progress.step;
  if (std::exchange(state_.savepoints.is_due, false))
    state_.savepoints.announced = state_.progress.step;
  for (Trainer* trainer : trainers) count(*trainer, lag, is_discarded);
  for (Trainer* trainer : trainers) {
    const bool carries_dense = trainer->push->carries_dense();
    trainer->push.reset();
    // Without a waiter the trainer's connection is closed, or it has joined again and waits for
    // something else.
    if (!trainer->waiter || trainer->waiter->what != WaitFor::kUpdate) continue;
    const std::uint64_t request = trainer->waiter->request;
    trainer->waiter.reset();
    reply_pushed(*trainer, request, is_discarded, carries_dense, out);
  }
  return true;
}

std::string Updates::apply(float learning_rate, std::span<const Push* const> pushes) {
  const wire::Merge merge = state_.parameters.set().merge();
  table::DenseTable* const dense = state_.parameters.dense();
  if (dense == nullptr) {
    const auto broken = apply_rows(learning_rate, merge, pushes, state_.parameters.tables());
    return broken ? state_.parameters.name(*broken) : "";
  }
  const Push& first = *pushes.front();
  if (pushes.size() == 1 && first.samples > 0 && !first.lent().empty()) {
    return dense->apply(learning_rate, first.lent());
  }
  const auto gradient = merge_dense(pushes, merge, scratch_, part_scratch_);
  if (gradient.size() != dense->size()) return "";
  return dense->apply(learning_rate, gradient);
}

void Updates::count(Trainer& trainer, std::uint64_t lag, bool is_discarded) {
  const Push& push = *trainer.push;
  wire::PassFinished& pass = state_.progress.pass;
  pass.set_samples(pass.samples() + push.samples);
  pass.set_cost_sum(pass.cost_sum() + push.cost_sum);
  pass.set_pushes(pass.pushes() + 1);
  pass.set_batches(pass.batches() + push.batches);
  count_lag(pass, lag);
  if (is_discarded) {
    pass.set_discarded(pass.discarded() + 1);
  } else if (!state_.parameters.policy().has_rounds()) {
    state_.progress.updates += push.batches;
  }
  state_.progress.stop = state_.progress.stop || push.stop;
  state_.savepoints.is_asked = state_.savepoints.is_asked || push.asks_savepoint;
  state_.savepoints.whole_everywhere =
      std::max(state_.savepoints.whole_everywhere, push.whole_savepoint);
  trainer.last_applied = push.sequence;
  trainer.clock += push.batches;
}

void Updates::reply_pushed(Trainer& trainer, std::uint64_t request, bool is_discarded,
                           bool carries_dense, std::vector<net::Outgoing>& out) {
  wire::Pushed message;
  message.set_request(request);
  message.set_step(state_.progress.step);
  message.set_last_applied(trainer.last_applied);
  message.set_discarded(is_discarded);
  message.set_stop(state_.progress.stop);
  trainer.knows_of_stop = state_.progress.stop;
  message.set_savepoint(state_.savepoints.announced == state_.progress.step);
  message.set_whole_savepoint(state_.savepoints.newest_whole());
  const table::DenseTable* const dense = state_.parameters.dense();
  const bool lends = state_.options.loan != nullptr && state_.options.loan->lends_values;
  const bool has_values = carries_dense && !lends && dense != nullptr &&
                          dense->values().size_bytes() <= kTransferBytesMax;
  message.set_has_values(has_values);
  trainer.seen_updates = state_.progress.updates;
  state_.replies.send(trainer, FrameType::kPushed, message, {}, out);
  if (has_values) out.back().view = bytes_of(dense->values());
}

}  // namespace paddle::pserver
