// Notices of this process to its supervisor (proto/supervision.proto). Each is one write to the
// pipe whose descriptor is in PADDLECTL_NOTICE_FD. Without a supervisor they do nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>

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
// Adds a peer whose heartbeats have stopped to the progress that was told last: who waits for that
// peer has no progress to tell. Any thread may call it.
void notify_silence(std::uint32_t peer, std::chrono::milliseconds lasted);
// Adds the trainers that this one waits for, in the same way.
void notify_awaited(std::span<const std::uint32_t> trainers, std::chrono::milliseconds lasted);
void notify_pulse(const wire::Pulse& pulse);

}  // namespace paddle::commands
