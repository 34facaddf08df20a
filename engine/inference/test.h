// Test of a snapshot on held-out data: what training logged for it, where the data is the same.
#pragma once

#include <string>

#include "engine/inference/description.h"
#include "engine/inference/parameters.h"
#include "engine/trainer/metrics.h"

namespace paddle::inference {

struct TestResult {
  trainer::Reading reading;
  RowCounts rows;
  std::uint64_t ids = 0;  // distinct ones, and those of them without a row
  std::uint64_t unseen_ids = 0;
  std::string unseen_note;        // DistinctIds::note()
  std::uint64_t bad_records = 0;  // left out, as the job's on_bad_record says
};

// `glob` is below `folder`, where a pipe_command runs too. Threads are the job's trainer_count:
// with as many as in training, the figures are equal to the last digit. kData: there is no record.
Result<TestResult> test_snapshot(const snapshot::SnapshotReader& snapshot,
                                 const ModelDescription& description, const std::string& folder,
                                 const std::string& glob);

}  // namespace paddle::inference
