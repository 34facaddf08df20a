// A job's curves as TensorBoard event files.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/report/record.h"

namespace paddle::cli {

// <folder>/tensorboard/events.out.tfevents.<start>.paddlectl with what is the whole job's (cost and
// evaluators of each pass, held-out ones), and the same below tensorboard/<role>/ with each
// trainer's own: a run each. Files of an earlier call are replaced. How many scalars were written.
Result<std::size_t> write_event_files(const std::string& folder, const JobRecord& record);

}  // namespace paddle::cli
