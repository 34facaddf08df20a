// SHA-256 of a local file, as AgentClient::list reports it: names the engine binary and spares a second fetch.
#pragma once

#include <string>

#include "engine/base/result.h"

namespace paddle::cli {

Result<std::string> file_sha256(const std::string& path);  // 64 hex digits; kData when it cannot be read

}  // namespace paddle::cli
