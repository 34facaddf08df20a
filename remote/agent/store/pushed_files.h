// What pushes have placed in a folder, so that a later one can take away what it does not have any
// more, and never what others wrote there.
#pragma once

#include <set>
#include <string>

#include "base/result.h"
#include "remote/agent/root/root.h"

namespace paddle::agent {

// Before the files of a push take their names: those that an earlier one placed in `folder` (below
// root) and that are not among `paths` go, with the folders that this empties; a file that somebody
// has replaced since then stays. Whether any went. Remembered in <folder>.pushed, a serialised
// Manifest of paths.
Result<bool> keep_only(const Root& root, const std::string& folder,
                       const std::set<std::string>& paths);

}  // namespace paddle::agent
