// The engine's `paddle` run on this machine, for what only it can compute.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace paddle::cli {

// The output of `paddle <arguments>`. An exit code other than 0 is an error with that code and the
// program's message; kResource when it cannot be started or takes over a minute.
Result<std::string> run_engine(const std::string& program, std::vector<std::string> arguments);

// kVersion, with both versions, when that program is of another release.
Status check_engine_version(const std::string& program);

}  // namespace paddle::cli
