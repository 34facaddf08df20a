// The command that nodes run once an event of a job: [notify] in job.toml, or the user's
// notify.toml. docs/notify.md.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/job/plan.h"
#include "cli/job/workspace.h"
#include "engine/config/job_config.h"

namespace paddle::cli {

// $XDG_CONFIG_HOME/paddlectl/notify.toml, or below ~/.config; "" without a home.
std::string user_notify_file();

// Checks the program of [notify]: if it is a file, such as "./notify.sh", the workspace pushes it,
// and it is executable. `folder`: the workspace, as typed. kUsage, with the line in job.toml.
Status check_notify(const config::JobConfig& job, const std::string& folder,
                    const std::vector<std::string>& overrides, const Workspace& workspace);

// The command of the job's [notify] or, without that section, of `user_file`, if it exists; ""
// stands for none. Arguments there that begin with "./" name files beside it. kUsage: such a file
// is missing. kAuth: others could have written one.
Result<std::optional<JobNotify>> find_notify(const config::JobConfig& job,
                                             const std::string& user_file);

}  // namespace paddle::cli
