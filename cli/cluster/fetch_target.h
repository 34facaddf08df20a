// The local path of a file that a node names.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace paddle::cli {

// The path of `name` below `folder`, with its parents made. kData for a name that leaves the
// folder; kResource with `hint` where a parent cannot be made.
Result<std::string> fetch_target(const std::filesystem::path& folder, const std::string& name,
                                 const std::string& hint);

}  // namespace paddle::cli
