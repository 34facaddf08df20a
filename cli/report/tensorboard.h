// A job's curves as TensorBoard event files.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/report/record.h"

namespace paddle::cli {

// Writes tensorboard/events.out.tfevents.<start>.paddlectl below the folder, with the curves of the
// whole job (cost and evaluators of each pass and on held-out data), and one file below
// tensorboard/<role>/ with each trainer's own curves. Replaces files of an earlier call. Returns
// the number of scalars written.
Result<std::size_t> write_event_files(const std::string& folder, const JobRecord& record);

}  // namespace paddle::cli
