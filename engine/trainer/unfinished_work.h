// Return of a trainer to a running job: the new process finishes what an earlier process of this
// trainer began, and trains from there.
//
//   lost during                             the new process
//   a batch                                 trains it again, and does not count it again
//   a push that only some ports have        pushes the same bits to the others, and nothing else
//   the test that follows a batch           tests before the next batch
//   the end of a pass                       asks for the totals again: report, save, test, decide
//   the barrier after a save                tests, and goes to the next pass
//   the barrier with a decision             receives the same decision again
//   the last barrier of the job             leaves
//
// The position comes from the shards (client::JobProgress), the last push and the counts from the
// memory that outlives the process (ReplayLog).
#pragma once

#include <cstdint>

#include "base/result.h"
#include "engine/client/parameter_client.h"
#include "engine/trainer/end_of_pass.h"
#include "engine/trainer/held_out.h"
#include "engine/trainer/loop_options.h"
#include "engine/trainer/model.h"
#include "engine/trainer/pass.h"

namespace paddle::trainer {

class UnfinishedWork {
 public:
  // All references must outlive the object.
  UnfinishedWork(const LoopOptions& options, Model& model, client::ParameterClient& client,
                 Pass& pass, HeldOutTest& test, EndOfPass& end)
      : options_(options),
        model_(model),
        client_(client),
        pass_(pass),
        test_(test),
        end_(end),
        batches_done_(options.batches_done) {}

  // Finishes the last push, or the end of the pass before options.start_pass. Does nothing in the
  // first process of a job that starts from the beginning.
  // REQUIRES: model.dense() has the shards' values.
  Status run();
  // The place at which training continues in this pass.
  // REQUIRES: run() has succeeded.
  Pass::Start start_of(std::uint32_t pass) const;

  // All trainers have passed the last barrier of the job: this one only has to leave.
  bool has_passed_last_barrier() const { return has_passed_last_barrier_; }
  // The last push of an earlier process reached only some ports, and cannot reach the others.
  bool has_lost_push() const { return has_lost_push_; }

 private:
  Status repeat_push();
  Status repeat_pass_end(std::uint32_t pass);
  Status repeat_decision();
  Status decide_at_start();
  Pass::Start kept_counts(std::uint32_t pass, std::uint64_t batch) const;
  bool lacks_test(BatchNumber at) const;

  const LoopOptions& options_;
  Model& model_;
  client::ParameterClient& client_;
  Pass& pass_;
  HeldOutTest& test_;
  EndOfPass& end_;

  std::uint64_t batches_done_;  // of options.start_pass
  bool has_passed_last_barrier_ = false;
  bool has_lost_push_ = false;
};

}  // namespace paddle::trainer
