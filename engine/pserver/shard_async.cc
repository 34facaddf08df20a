// Pushes that wait for no round: applied at once, or when the slowest trainer has caught up.
#include <algorithm>

#include <fmt/format.h>

#include "engine/pserver/lag.h"
#include "engine/pserver/shard.h"

namespace paddle::pserver {
namespace {

constexpr double kDiscardRatioDefault = 1.5;

}  // namespace

wire::Strategy Shard::strategy() const {
  return options_.is_sparse ? set_->sparse_strategy() : set_->dense_strategy();
}

Shard::Refused Shard::set_up_compensation(const wire::ParameterSet& set) {
  if (set.delay_compensation() <= 0) return {};
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

std::uint64_t Shard::slowest_clock() const {
  std::uint64_t slowest = UINT64_MAX;
  for (const Trainer& trainer : membership_.trainers()) {
    if (trainer.active()) slowest = std::min(slowest, trainer.clock);
  }
  return slowest;
}

std::uint64_t Shard::clock_lead() const {
  std::uint64_t fastest = 0;
  for (const Trainer& trainer : membership_.trainers()) {
    if (trainer.active()) fastest = std::max(fastest, trainer.clock);
  }
  return fastest == 0 ? 0 : fastest - slowest_clock();
}

// The slowest may always go on, so that no two trainers wait for each other.
bool Shard::may_apply(const Trainer& trainer) const {
  if (!trainer.active() || !trainer.has_complete_push()) return false;
  if (!set_->has_staleness_max()) return true;
  return trainer.clock - slowest_clock() <= set_->staleness_max();
}

void Shard::try_apply(std::vector<net::Outgoing>& out) {
  if (failure_ || !set_ || is_sync()) return;
  for (;;) {
    Trainer* next = nullptr;
    for (Trainer& trainer : membership_.trainers()) {
      if (may_apply(trainer) && (next == nullptr || trainer.clock < next->clock)) next = &trainer;
    }
    if (next == nullptr) return;
    apply(*next, out);
  }
}

void Shard::apply(Trainer& trainer, std::vector<net::Outgoing>& out) {
  net::keep_views(out);
  const Push* const push = &*trainer.push;
  const std::uint64_t lag = updates_ - trainer.seen_updates;
  const float ratio = set_->async_lagged_grad_discard_ratio();
  const double threshold = (ratio > 0 ? static_cast<double>(ratio) : kDiscardRatioDefault) *
                           options_.num_gradient_servers;
  const bool is_discarded = dense_ && strategy() == wire::STRATEGY_ASYNC &&
                            !set_->has_staleness_max() && static_cast<double>(lag) >= threshold;
  count_push(totals_, push->batches, lag);
  const float learning_rate = next_learning_rate(push->samples);
  if (is_discarded) {
    totals_.set_discarded(totals_.discarded() + 1);
  } else {
    if (dense_ && push->samples > 0) {
      auto gradient = push->dense(scratch_);
      if (compensation_) {
        gradient = compensation_->compensate(trainer.id, gradient, dense_->values(), part_scratch_);
      }
      dense_->apply(learning_rate, gradient);
    }
    if (!dense_) apply_rows(learning_rate, set_->merge(), std::span(&push, 1), tables_);
    updates_ += push->batches;
  }
  totals_.set_samples(totals_.samples() + push->samples);
  totals_.set_cost_sum(totals_.cost_sum() + push->cost_sum);
  trainer.clock += push->batches;
  stop_ = stop_ || push->stop;
  trainer.last_applied = push->sequence;
  trainer.push.reset();
  ++step_;
  // Without a waiter its connection is gone, or it has come back and asks something else.
  if (!trainer.waiter || trainer.waiter->what != WaitFor::kSlowest) return;
  const std::uint64_t request = trainer.waiter->request;
  trainer.waiter.reset();
  reply_pushed(trainer, request, is_discarded, out);
}

}  // namespace paddle::pserver
