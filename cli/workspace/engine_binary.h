// The `paddle` binary that travels to nodes, stored there once per content.
#pragma once

#include <string>

#include "base/result.h"
#include "remote/agent_client.h"

namespace paddle::cli {

// {local path, "bin/paddle-<first 16 hex digits of its SHA-256>", executable}. kUsage when it is
// not there.
Result<remote::PushItem> engine_item(const std::string& local_path);

}  // namespace paddle::cli
