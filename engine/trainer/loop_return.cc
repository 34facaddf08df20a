// A trainer that comes back in a job that is running: it takes up what its earlier life has left.
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "engine/trainer/loop.h"

namespace paddle::trainer {

Status Loop::come_back() {
  if (options_.repeats_pass_end) return repeat_pass_end(options_.start_pass - 1);
  if (options_.train.has_decisions()) PADDLE_TRY_STATUS(decide_at_start());
  return repeat_push();
}

Status Loop::repeat_push() {
  const KeptPush* const kept = options_.kept;
  const auto last = kept != nullptr ? kept->push() : std::nullopt;
  // A kind that is pushed without rounds may be batches behind, and is computed anew.
  const std::uint64_t next = options_.batches_done + 1;
  const bool is_behind = last && last->batch > next && client_.progress().is_split;
  if (last && last->pass == options_.start_pass && (last->batch == next || is_behind)) {
    log_info("pushing batch {} of pass {} again, to the ports that lack it", last->batch,
             last->pass);
    PADDLE_TRY(std::vector<client::SparseRows> rows, kept->rows());
    PADDLE_TRY_STATUS(
        client_.repeat_push(last->batch, kept->samples(), kept->cost(), model_.dense(), rows));
  }
  const client::JobProgress progress = client_.progress();
  options_.batches_done = progress.batches;
  has_lost_push_ = progress.is_split;
  if (!has_lost_push_) return {};
  return Error{Errc::kUnreachable,
               fmt::format("the last push of trainer {} reached some ports only, and is lost",
                           options_.trainer_id),
               "all of the job goes back to its last snapshot"};
}

void Loop::restore(std::uint32_t pass) {
  auto last = options_.kept->last_counts(pass);
  if (last && last->first >= batch_) {
    batches_counted_ = last->first;
    since_start_ = last->second.score;
  } else if (pass > 0) {
    last = options_.kept->last_counts(pass - 1);
  }
  if (last && !std::exchange(has_first_cost_, true)) first_cost_ = last->second.first_cost;
}

// Ports that have gone on from the meeting after a save hold what comes after it.
bool Loop::was_saved(std::uint32_t pass) const {
  return options_.furthest > client::LanePosition{pass + 1ULL, 0, 0};
}

// The servers tell the totals of the last pass again. The others wait in the same meeting, or have
// left it already.
Status Loop::repeat_pass_end(std::uint32_t pass) {
  if (options_.kept != nullptr) {
    restore(pass);
    batch_ = batches_counted_;
  }
  if (options_.train.has_decisions() && options_.meetings_done > 0) {
    PADDLE_TRY_STATUS(hear_again(pass));
    return has_met_at_end_ ? Status() : end_early(pass);
  }
  const std::uint64_t after_saving = is_saved(pass) ? 1 : 0;
  has_met_at_end_ =
      options_.start_pass == options_.train.passes && options_.meetings_done > after_saving;
  if (has_met_at_end_) return {};
  if (options_.meetings_done > 0) return begin_next(pass);
  client_.repeat_end(client::PassEnd::kFinish);
  return end_pass(pass);
}

}  // namespace paddle::trainer
