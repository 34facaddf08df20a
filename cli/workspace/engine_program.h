// The engine's `paddle`: as pushed to nodes, which store it once per content, and run on this
// machine for what only it can compute.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "remote/agent_client.h"

namespace paddle::cli {

// {local path, "bin/paddle-<first 16 hex digits of its SHA-256>", executable}. kUsage when there is
// no such file.
Result<remote::PushItem> engine_item(const std::string& local_path);

// The output of `paddle <arguments>`. An exit code other than 0 is an error with that code and the
// program's message; kResource when it cannot be started or takes over a minute.
Result<std::string> run_engine(const std::string& program, std::vector<std::string> arguments);

// kVersion, with both versions, when that program is of another release.
Status check_engine_version(const std::string& program);

}  // namespace paddle::cli
