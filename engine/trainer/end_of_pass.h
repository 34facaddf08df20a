// The end of a pass, which all trainers reach together:
//
//   totals of all trainers -> report -> save -> test -> decide
//
// Trainer 0 saves and tests for all. Without train.best and train.stop_when a barrier follows the
// save, and trainer 0 tests while the others go on. With one of them, trainer 0 saves and tests,
// and publishes its decision at the barrier that follows; all trainers obey the decision that they
// receive there, trainer 0 too. A pass that was stopped is saved at its place instead.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/tally.h"
#include "engine/client/parameter_client.h"
#include "engine/snapshot/info.h"
#include "engine/trainer/early_stop.h"
#include "engine/trainer/held_out.h"
#include "engine/trainer/loop_options.h"
#include "engine/trainer/model.h"
#include "engine/trainer/pass.h"
#include "engine/trainer/pass_snapshots.h"
#include "engine/trainer/report.h"

namespace paddle::trainer {

class EndOfPass {
 public:
  // All references must outlive the object.
  EndOfPass(const LoopOptions& options, Model& model, client::ParameterClient& client, Pass& pass,
            Report& report, HeldOutTest& test);

  // Ends the current pass. kResumable, kInterrupted: the pass was stopped, with a snapshot or
  // without one.
  Status run();
  // Returns when every trainer has called it.
  Status barrier();

  // The steps of run(). A restarted trainer begins with one that its earlier process lacks.

  // Whether a snapshot of the pass is due, and with it a barrier.
  bool is_saved() const { return snapshots_.is_due(pass_.progress()); }
  // Refreshes the dense values, and tests them.
  Status prepare_next_pass();
  // Publishes the decision of trainer 0, and obeys it.
  Status decide();
  // Obeys the decision that trainer 0 has published at the barrier. own: as in decide(); a trainer
  // without an own decision gives none.
  Status obey_decision(const Decision& own);
  // After the last pass of a job: saves it in full if there is only a delta of it.
  Status complete_last_snapshot();

  // Reads the tests of earlier runs, without those of passes that are trained again.
  void read_earlier_tests();
  bool has_test(std::uint32_t pass) const { return early_stop_.has_test(pass); }

 private:
  Tally tally_to_send() const;
  snapshot::PassPlace split_off_places(Tally& tally) const;
  bool had_records_before() const;
  Error no_record() const;
  Status save();
  Status stop(const snapshot::PassPlace& place);
  void update_best();

  const LoopOptions& options_;
  Model& model_;
  client::ParameterClient& client_;
  Pass& pass_;
  Report& report_;
  HeldOutTest& test_;
  PassSnapshots snapshots_;
  EarlyStop early_stop_;
};

}  // namespace paddle::trainer
