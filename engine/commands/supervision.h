// The interface to the supervisor of this process: what it hands over, and the notices it receives.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <thread>

#include "base/fd.h"
#include "base/result.h"
#include "proto/supervision.pb.h"

namespace paddle::commands {

// Things that a supervisor hands to its process in environment variables.

// Removes the variable, whose value is the number of a descriptor, from the environment and returns
// the descriptor; no child of this process gets it. Empty: none was handed over, or its kind is not
// `kind` (S_IFIFO, S_IFREG).
UniqueFd take_inherited(const char* variable, mode_t kind);
// The memory of PADDLECTL_MEMORY_FD, which all processes of this trainer share. Empty, with a
// warning in the log, if the descriptor is something else: a launcher that closes descriptors
// leaves the variable, and the number may be that of a file of the user's own by then.
UniqueFd take_trainer_memory();
// Whether the variable was set; removes it from the environment.
bool take_mark(const char* variable);

// Notices of this process to its supervisor (proto/supervision.proto). Each is one write to the
// pipe whose descriptor is in PADDLECTL_NOTICE_FD. Without a supervisor they do nothing.

// Takes the descriptor out of the environment, so that no child of this process gets it.
void open_notices();

void notify_ready();
// Only the first call sends anything.
void notify_stopping();
void notify_failed(const Error& error);
// Sets the time of `progress`. Any thread may call it.
void notify_progress(wire::Progress progress);
// Adds a peer whose heartbeats have stopped to the last progress: a process that waits for that
// peer has no progress of its own to report. Any thread may call it.
void notify_silence(std::uint32_t peer, std::chrono::milliseconds lasted);
// Adds the trainers that this process waits for, in the same way.
void notify_awaited(std::span<const std::uint32_t> trainers, std::chrono::milliseconds lasted);
void notify_pulse(const wire::Pulse& pulse);

// A thread that reports to the supervisor every second that this process runs, and whether its main
// work goes on. It hangs only when the whole process does.
class PulseThread {
 public:
  // `read` is called by the thread.
  explicit PulseThread(std::function<wire::Pulse()> read);
  ~PulseThread();
  PulseThread(const PulseThread&) = delete;
  PulseThread& operator=(const PulseThread&) = delete;

 private:
  void run();

  std::function<wire::Pulse()> read_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool is_ended_ = false;
  std::thread thread_;
};

}  // namespace paddle::commands
