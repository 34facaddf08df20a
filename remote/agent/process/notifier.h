// Runs the command of [notify] beside a supervised process: one at a time, with a time limit and a
// bounded log. Nothing here waits; the supervisor's loop calls step().
#pragma once

#include <sys/types.h>

#include <string>

#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "proto/agent.pb.h"
#include "remote/agent/node/root.h"
#include "remote/agent/process/child.h"
#include "remote/agent/process/notify_events.h"

namespace paddle::agent {

// The log is <folder of the process's log>/notify.log; with the file before it, it has at most so
// many bytes.
constexpr std::uint64_t kNotifyLogBytes = 64U << 10U;

class Notifier {
 public:
  explicit Notifier(const wire::agent::NotifyCommand& command);

  bool wants(NotifyEvent event) const;
  void add(NotifyEvent event, JsonObject fields);
  // Notices that wait for their minute are due at once.
  void hurry() { queue_.hurry(); }
  // Reads the output of the command, ends it at its time limit, and starts the next one.
  // `environment`: the node's, as for the process itself.
  void step(const Root& root, const wire::agent::ProcessSpec& spec, const Environment& environment);
  // Call for each child that was waited for. True: it was the command.
  bool on_reaped(pid_t pid, int wait_status);
  // Kills the command, and forgets all notices. It is idle once its command was waited for.
  void end();
  bool is_idle() const { return pid_ <= 0 && queue_.is_empty(); }

  int fd() const { return output_ ? output_.get() : -1; }
  TimePoint next_at() const;  // when to call step(), if fd() is not readable before

 private:
  void start(const Root& root, const wire::agent::ProcessSpec& spec, const Environment& environment,
             const NotifyQueue::Due& due);
  void read_output();
  void log(const Root& root, const wire::agent::ProcessSpec& spec, const std::string& end) const;
  // After the end of the command: ends what it has left, and writes its output to the log.
  void finish(const Root& root, const wire::agent::ProcessSpec& spec);

  std::vector<std::string> events_;
  Duration timeout_;
  NotifyQueue queue_;

  // The command that runs, or has ended and is not yet in the log.
  pid_t pid_ = -1;  // -1: none
  bool has_ended_ = false;
  bool is_timed_out_ = false;
  int wait_status_ = 0;
  TimePoint kill_at_;
  UniqueFd output_;
  std::string text_;  // its output so far
  std::string what_;  // "trainer-0: failed", for the log
};

}  // namespace paddle::agent
