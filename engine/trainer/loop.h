// The training loop: come back, then for each pass train it and end it, then leave.
//
//   Loop
//    +-- UnfinishedWork finishes what an earlier process of this trainer began
//    +-- EndOfPass      totals of all trainers, save (PassSnapshots), decision (EarlyStop)
//    +-- Pass           data, batches, counts
//    +-- HeldOutTest    tests of trainer 0
//    +-- Report         log, metrics file and progress for the supervisor
//
// Each part uses the parts below it.
#pragma once

#include <utility>

#include "base/result.h"
#include "engine/client/parameter_client.h"
#include "engine/data/dataset.h"
#include "engine/trainer/end_of_pass.h"
#include "engine/trainer/held_out.h"
#include "engine/trainer/loop_options.h"
#include "engine/trainer/metrics.h"
#include "engine/trainer/model.h"
#include "engine/trainer/pass.h"
#include "engine/trainer/report.h"
#include "engine/trainer/unfinished_work.h"

namespace paddle::trainer {

class Loop {
 public:
  // All references must outlive the loop. REQUIRES: client.ready() has succeeded.
  Loop(LoopOptions options, const data::Dictionary& dictionary, Model& model,
       client::ParameterClient& client, MetricsFile& metrics)
      : options_(std::move(options)),
        model_(model),
        client_(client),
        report_(options_, model, client, metrics),
        test_(options_, dictionary, model, client, report_),
        pass_(options_, dictionary, model, client, report_, test_),
        end_(options_, model, client, pass_, report_, test_),
        unfinished_(options_, model, client, pass_, test_, end_) {}
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Runs passes start_pass to passes - 1, or until a test ends the job. After a stop request, or
  // when train.time_max is over: kResumable with a snapshot, or kInterrupted without a save_dir.
  Status run();
  // The last push of an earlier process of this trainer reached only some ports, and cannot reach
  // the others.
  bool has_lost_push() const { return unfinished_.has_lost_push(); }

 private:
  const LoopOptions options_;
  Model& model_;
  client::ParameterClient& client_;
  Report report_;
  HeldOutTest test_;
  Pass pass_;
  EndOfPass end_;
  UnfinishedWork unfinished_;
};

}  // namespace paddle::trainer
