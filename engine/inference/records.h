// Records for a saved model.
#pragma once

#include <string>

#include "engine/config/job_config.h"
#include "engine/data/dataset.h"

namespace paddle::inference {

// The files of `glob` below `folder`, or standard input for "-", in the batches of tests. kData: no
// file matches.
Result<data::DatasetOptions> records_of(const config::JobConfig& job, const std::string& folder,
                                        const std::string& glob);

}  // namespace paddle::inference
