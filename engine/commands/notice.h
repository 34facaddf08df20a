// Notices of this process to its supervisor (proto/supervision.proto). Each is one write to the
// pipe whose descriptor is in PADDLECTL_NOTICE_FD. Without a supervisor they do nothing.
#pragma once

#include "base/result.h"

namespace paddle::commands {

// Takes the descriptor out of the environment, so that no child of this process gets it.
void open_notices();

void notify_ready();
// Only the first call sends anything.
void notify_stopping();
void notify_failed(const Error& error);

}  // namespace paddle::commands
