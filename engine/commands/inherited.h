// Things that a supervisor hands to its process in environment variables.
#pragma once

#include <sys/stat.h>

#include "base/fd.h"

namespace paddle::commands {

// Takes the descriptor, which stands there by its number, out of the environment, so that no child
// of this process gets it. Empty: none was handed over, or it is of another kind than `kind`
// (S_IFIFO, S_IFREG).
UniqueFd take_inherited(const char* variable, mode_t kind);
// Whether the variable was there, which it is no more.
bool take_mark(const char* variable);

}  // namespace paddle::commands
