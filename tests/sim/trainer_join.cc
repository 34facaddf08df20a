// A simulated trainer's way into its job: anew, while it runs, or back to savepoints.
#include <algorithm>

#include "tests/sim/trainer.h"

namespace paddle::sim {
namespace {

constexpr const char* kSplit = "the last push reached only some ports, and is lost";

}  // namespace

// Only trainer 0 can tell whether a port was started again: the others may have joined while it
// says Ready to port after port.
Result<Trainer::Phase> Trainer::phase_of_join() {
  // Another has left after the last pass.
  if (std::ranges::any_of(positions_, [&](const wire::Position& each) {
        return each.ready() && each.left() && each.passes_finished() >= options_.passes;
      })) {
    ++leaves_over_;
    return Phase::kLeave;
  }
  client::RollbackPlan rollback;
  for (const wire::Position& each : positions_) rollback.add(each);
  if (rollback.all_run()) {
    ++lone_returns_;
    return Phase::kReady;
  }
  if (auto savepoints = rollback.savepoints()) {
    if (id_ != 0) return Phase::kReady;
    rollback_ = *std::move(savepoints);
    ++goes_back_;
    return Phase::kGoBack;
  }
  finds_no_rollback_ = true;
  is_lost_ = !rollback.none_runs();
  if (id_ != 0) return Phase::kReady;
  if (is_lost_) return abandon("a pserver was restarted");
  return disk_.newest ? Phase::kLoadBegin : Phase::kReady;
}

// The trainer goes on from its earliest lane.
Result<Trainer::Phase> Trainer::first_phase() {
  for (std::uint32_t shard = 0; shard < positions_.size(); ++shard) {
    const wire::Position& each = positions_[shard];
    link_positions_[model_.is_sparse(shard)].add(client::position_of(each, id_), each.has_rounds());
    start_pass_ = each.passes_loaded();
    if (each.has_rounds()) in_rounds_.push_back(&lanes_[shard]);
  }
  furthest_ = std::max(link_positions_[0].furthest(), link_positions_[1].furthest());
  take_place(earliest());
  const bool has_push =
      memory_.push && memory_.push->generations == generations() && memory_.push->pass == pass_ &&
      (memory_.push->batch == batch_ + 1 || (memory_.push->batch > batch_ && is_split()));
  if (has_push) {
    take_place({pass_, meetings_, memory_.push->batch - 1});
    ++repeated_pushes_;
    repeats_push_ = true;
    gradients_ = memory_.push->gradients;
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
  take_place(earliest());
  if (is_split()) return abandon(kSplit);
  return phase_of_position();
}

void Trainer::take_place(client::LanePosition place) {
  pass_ = place.passes;
  meetings_ = place.pauses;
  batch_ = pushed_ = place.batches;
}

bool Trainer::is_split() const {
  client::LinkPositions all = link_positions_[0];
  all.add(link_positions_[1]);
  return all.is_split();
}

void Trainer::ask_go_back(std::uint32_t shard) {
  if (!rollback_[shard]) return;
  wire::GoBack message;
  message.set_savepoint(*rollback_[shard]);
  ask(shard, FrameType::kGoBack, message);
}

}  // namespace paddle::sim
