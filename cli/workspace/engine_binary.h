// The `paddle` binary as pushed to nodes, which store it once per content.
#pragma once

#include <string>

#include "base/result.h"
#include "remote/agent_client.h"

namespace paddle::cli {

// {local path, "bin/paddle-<first 16 hex digits of its SHA-256>", executable}. kUsage when there is
// no such file.
Result<remote::PushItem> engine_item(const std::string& local_path);

}  // namespace paddle::cli
