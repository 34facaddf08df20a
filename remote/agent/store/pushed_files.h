// The record of files that pushes placed in a folder, so that a later push can remove those it no
// longer has, and never a file that something else wrote.
#pragma once

#include <set>
#include <string>

#include "base/result.h"
#include "remote/agent/root/root.h"

namespace paddle::agent {

// Call before the files of a push are placed. Removes files that earlier pushes placed in `folder`
// (below root) and that are not among `paths`, and folders left empty; a file that was replaced
// since is kept. True when any was removed. The record is <folder>.pushed, a serialised Manifest.
Result<bool> keep_only(const Root& root, const std::string& folder,
                       const std::set<std::string>& paths);

}  // namespace paddle::agent
