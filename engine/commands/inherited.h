// Descriptors that a supervisor hands to its process, by number in environment variables.
#pragma once

#include <sys/stat.h>

#include "base/fd.h"

namespace paddle::commands {

// Takes the descriptor out of the environment, so that no child of this process gets it. Empty:
// none was handed over, or it is of another kind than `kind` (S_IFIFO, S_IFREG).
UniqueFd take_inherited(const char* variable, mode_t kind);

}  // namespace paddle::commands
