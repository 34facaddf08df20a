// Predictions for whole files, by any number of threads.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "engine/inference/description.h"
#include "engine/inference/predictor.h"

namespace paddle::inference {

struct PredictOptions {
  std::string folder = ".";  // for `glob`; a pipe_command runs there
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

// Calls `write` with the lines of all records, in the order of the files' names and of the records
// in each: the text is the same for any number of threads. An error of `write` ends it and is
// returned.
Result<PredictResult> predict_records(const snapshot::SnapshotReader& snapshot,
                                      const ModelDescription& description,
                                      const PredictOptions& options,
                                      const std::function<Status(std::string_view)>& write);

}  // namespace paddle::inference
