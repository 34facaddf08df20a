#include "engine/trainer/unfinished_work.h"

#include <optional>

#include "engine/trainer/start.h"

namespace paddle::trainer {

// INVARIANT: a trainer pushes in a pass only after it has finished the end of the pass before, and
// the decision there. So a push that only some ports have is all that its earlier process left.
Status UnfinishedWork::run() {
  if (client_.progress().is_split) return repeat_push();
  if (options_.repeats_pass_end) return repeat_pass_end(options_.start_pass - 1);
  if (options_.train.has_decisions()) PADDLE_TRY_STATUS(decide_at_start());
  return repeat_push();
}

// The last push.

Status UnfinishedWork::repeat_push() {
  PADDLE_TRY_STATUS(repeat_last_push(options_.kept, client_, model_.dense()));
  const client::JobProgress progress = client_.progress();
  batches_done_ = progress.batches;
  has_lost_push_ = progress.is_split;
  if (has_lost_push_) return lost_push(options_.trainer_id);
  return {};
}

// The end of the last pass.

// The pservers send the totals of the last pass again. The other trainers wait at the same barrier,
// or have passed it already.
Status UnfinishedWork::repeat_pass_end(std::uint32_t pass) {
  pass_.go_to_end(pass, kept_counts(pass, 0));
  if (options_.train.has_decisions() && options_.barriers_done > 0) {
    PADDLE_TRY_STATUS(repeat_decision());
    return has_passed_last_barrier_ ? Status() : end_.complete_last_snapshot();
  }
  const std::uint64_t after_saving = end_.is_saved() ? 1 : 0;
  has_passed_last_barrier_ =
      options_.start_pass == pass_.progress().passes && options_.barriers_done > after_saving;
  if (has_passed_last_barrier_) return {};
  if (options_.barriers_done > 0) return end_.prepare_next_pass();
  client_.repeat_end(client::PassEnd::kFinish);
  return end_.run();
}

// REQUIRES: this trainer has passed the barrier with the decision. A second barrier is the last one
// of the job.
Status UnfinishedWork::repeat_decision() {
  has_passed_last_barrier_ = options_.barriers_done > 1;
  if (has_passed_last_barrier_) {
    pass_.make_last();
    return {};
  }
  client_.repeat_end(client::PassEnd::kPause);
  return end_.obey_decision({});
}

// A job that resumes from the snapshot of a whole pass decides again: that pass may be its last
// one.
Status UnfinishedWork::decide_at_start() {
  if (options_.start_pass == 0 || options_.start_pass >= options_.train.passes) return {};
  const std::uint32_t pass = options_.start_pass - 1;
  pass_.go_to_end(pass, {});
  const bool is_within = options_.batches_done > 0 || options_.begins_within_pass;
  if (options_.barriers_done > 0) return is_within ? Status() : repeat_decision();
  if (!is_within && !end_.has_test(pass)) {
    PADDLE_TRY_STATUS(test_.run_at_end(pass_.progress()));
  }
  return end_.decide();
}

// The counts of the pass.

Pass::Start UnfinishedWork::start_of(std::uint32_t pass) const {
  const std::uint64_t batch = pass == options_.start_pass ? batches_done_ : 0;
  Pass::Start start = kept_counts(pass, batch);
  start.lacks_test = lacks_test({pass, batch});
  return start;
}

// The counts of earlier processes may be ahead of `batch`, at which this process begins.
Pass::Start UnfinishedWork::kept_counts(std::uint32_t pass, std::uint64_t batch) const {
  Pass::Start start{.batch = batch};
  if (options_.kept == nullptr) return start;
  auto last = options_.kept->last_counts(pass);
  if (last && last->first >= batch) {
    start.counts = Pass::KeptCounts{last->first, last->second.score};
  } else if (pass > 0) {
    last = options_.kept->last_counts(pass - 1);
  }
  if (last) start.first_cost = last->second.first_cost;
  return start;
}

// Whether an earlier process of this trainer ended during the test that follows the batch.
bool UnfinishedWork::lacks_test(BatchNumber at) const {
  const std::uint32_t period = options_.train.test_period;
  if (options_.kept == nullptr || at.batch == 0 || period == 0 || at.batch % period != 0)
    return false;
  const bool is_first_process = !options_.kept->last_counts(at.pass);
  return !is_first_process && !options_.kept->is_written(ReplayLog::Line::kTest, at);
}

}  // namespace paddle::trainer
