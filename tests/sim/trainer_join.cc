// A simulated trainer's way into its job: anew, while it runs, or back to savepoints.
#include <algorithm>

#include "tests/sim/trainer.h"

namespace paddle::sim {
namespace {

constexpr const char* kSplit = "the last push reached only some ports, and is lost";

}  // namespace

Result<Trainer::Phase> Trainer::phase_of_join() {
  using State = client::Recovery::State;
  const Status joined = recovery_.end_state({});
  const client::RollbackPlan& plan = recovery_.plan();
  const bool is_over = recovery_.state() == State::kOver;
  finds_no_rollback_ = !is_over && !plan.all_run() && !plan.savepoints();
  if (!joined) return abandon(joined.error().message);
  switch (recovery_.state()) {
    case State::kOver:
      ++leaves_over_;
      return Phase::kLeave;
    case State::kGoBack:
      ++goes_back_;
      return Phase::kGoBack;
    case State::kLoad:
      return disk_.newest ? Phase::kLoadBegin : Phase::kReady;
    default:
      if (plan.all_run()) ++lone_returns_;
      return Phase::kReady;
  }
}

// The trainer goes on from its earliest lane.
Result<Trainer::Phase> Trainer::first_phase() {
  PADDLE_TRY_STATUS(recovery_.end_state({}));
  for (const bool is_sparse : {false, true})
    link_positions_[is_sparse] = recovery_.links(is_sparse);
  for (std::uint32_t shard = 0; shard < lanes_.size(); ++shard) {
    if (recovery_.in_rounds(shard)) in_rounds_.push_back(&lanes_[shard]);
  }
  start_pass_ = recovery_.passes_loaded();
  furthest_ = std::max(link_positions_[0].furthest(), link_positions_[1].furthest());
  take_place(earliest());
  client::JobProgress now;
  now.passes = pass_;
  now.batches = batch_;
  now.is_split = is_split();
  const auto& kept = memory_.push;
  if (kept && kept->generations == generations() &&
      client::repeats_push(now, kept->pass, kept->batch)) {
    take_place({pass_, meetings_, kept->batch - 1});
    ++repeated_pushes_;
    repeats_push_ = true;
    gradients_ = kept->gradients;
    return Phase::kPushEarly;
  }
  if (is_split()) return abandon(kSplit);
  return phase_of_position();
}

// Ports in rounds have the push now. Others, for which it is not kept, may still lack it.
Result<Trainer::Phase> Trainer::repeat_replay_log() {
  for (const bool is_sparse : {false, true}) {
    if (model_.in_rounds(is_sparse ? model_.dense_shards() : 0)) {
      link_positions_[is_sparse].on_push(end_of_push());
    }
  }
  repeats_push_ = false;
  client::LinkPositions all = link_positions_[0];
  all.add(link_positions_[1]);
  recovery_.on_repeated(all);
  take_place(earliest());
  if (is_split()) return abandon(kSplit);
  return phase_of_position();
}

void Trainer::take_place(client::TrainerPosition place) {
  pass_ = place.passes;
  meetings_ = place.pauses;
  batch_ = pushed_ = place.batches;
}

bool Trainer::is_split() const {
  return recovery_.state() == client::Recovery::State::kRepeat;
}

}  // namespace paddle::sim
