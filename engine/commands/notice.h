// Notices of this process to its supervisor (proto/supervision.proto). Each is one write to the
// pipe whose descriptor is in PADDLECTL_NOTICE_FD. Without a supervisor they do nothing.
#pragma once

#include "base/result.h"
#include "proto/supervision.pb.h"

namespace paddle::commands {

// Takes the descriptor out of the environment, so that no child of this process gets it.
void open_notices();

void notify_ready();
// Only the first call sends anything.
void notify_stopping();
void notify_failed(const Error& error);
// Sets the time of `progress`. Any thread may call it.
void notify_progress(wire::Progress progress);
void notify_pulse(const wire::Pulse& pulse);

}  // namespace paddle::commands
