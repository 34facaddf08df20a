// A saved model applied to files of records: predictions for each record, by any number of threads,
// and the test that training makes.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "engine/model/description.h"
#include "engine/model/parameters.h"
#include "engine/model/predictor.h"
#include "engine/trainer/metrics.h"

namespace paddle::inference {

struct PredictOptions {
  std::string folder = ".";  // folder of `glob`; a pipe_command runs there
  std::string glob;          // "-": standard input
  std::string layer;         // "": the scores of the job's first cost
  LineFormat format = LineFormat::kCsv;
  std::uint32_t threads = 1;
};

struct PredictResult {
  std::uint64_t records = 0;
  std::uint64_t bad_records = 0;  // left out, as the job's on_bad_record says
  std::string unseen_note;        // DistinctIds::note()
};

// Calls `write` with the header, if there is one, and the lines of all records, in the order of the
// files' names and of the records in each file: the text is the same for any number of threads. An
// error of `write` ends the call and is returned.
Result<PredictResult> predict_records(const snapshot::SnapshotReader& snapshot,
                                      const ModelDescription& description,
                                      const PredictOptions& options,
                                      const std::function<Status(std::string_view)>& write);

// Result of a test of a snapshot on held-out data. On the same data, training logged the same
// result.
struct TestResult {
  trainer::Reading reading;
  RowCounts rows;
  std::uint64_t ids = 0;  // number of distinct ids, and of those without a row
  std::uint64_t unseen_ids = 0;
  std::string unseen_note;        // DistinctIds::note()
  std::uint64_t bad_records = 0;  // left out, as the job's on_bad_record says
};

// `glob` is below `folder`, where a pipe_command runs too; "": the job's own held-out records, in
// its files of [data] test or, with test_fraction, in those of [data] train. The job's
// trainer_count is the number of threads: with as many as in training, the figures are equal to the
// last digit. kData: there is no record.
Result<TestResult> test_snapshot(const snapshot::SnapshotReader& snapshot,
                                 const ModelDescription& description, const std::string& folder,
                                 const std::string& glob);

}  // namespace paddle::inference
