// The supervisor of one process: starts it, keeps its output and records, and starts it again after
// failures. It outlives the agent and paddlectl.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <csignal>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/safe_path.h"
#include "remote/agent/log/log_file.h"
#include "remote/agent/machine/oom_watch.h"
#include "remote/agent/machine/proc.h"
#include "remote/agent/process/child.h"
#include "remote/agent/process/pulse_watch.h"
#include "remote/agent/process/record.h"
#include "remote/agent/process/restart_policy.h"
#include "remote/agent/root/root.h"

namespace paddle::agent {

class Supervisor {
 public:
  // `lock`: on `folder`, held until the end, so that there is one supervisor per name.
  Supervisor(Root root, wire::agent::ProcessSpec spec, SafePath folder, UniqueFd lock,
             LogWriter log, std::uint32_t lives)
      : root_(std::move(root)),
        spec_(std::move(spec)),
        folder_(std::move(folder)),
        lock_(std::move(lock)),
        log_(std::move(log)),
        life_(lives),
        restarts_(spec_),
        // A program of the user's own sends no pulse.
        watch_(std::chrono::milliseconds(spec_.program().empty() ? 0 : spec_.hang_ms())) {}

  // `guard`: starts another supervisor when this one is killed.
  void set_guard(const ProcStat& guard) { guard_ = guard; }
  // Of all lives of the process, under any of its supervisors: memory_of(). -1: it has none.
  void set_memory(int memory) { memory_ = memory; }
  Status start(const Environment& environment);
  // Instead of start(): takes the place of a supervisor that was killed, and its process with it.
  // The failures that were counted since `guarded_from` go on counting.
  Status succeed(const Record& before, TimePoint guarded_from);
  void run(const Environment& environment);

 private:
  Status watch_signals();
  // Starts the process once.
  Status spawn(const Environment& environment);
  void wait_for_end();
  void poll_until(TimePoint until);
  void kill_if_it_hangs();
  // Writes the records anew if somebody removed them: without them nobody could stop the process.
  void mend_records();
  // Notes how this life ended, once the process has been waited for.
  void note_end();
  // True after the pause before another start; a stop request cuts the pause short.
  bool starts_again();
  bool is_interrupted() const;  // the life that ended last
  bool has_to_save() const;     // once more, though the job is asked to stop
  bool ends_as_wished() const;  // by a stop request
  StopWish wish() const { return is_told_to_end_ ? StopWish::kOrdered : stop_wish(root_, folder_); }
  void say(const std::string& text) {
    log_.append(as_bytes("paddlectl: " + text + "\n"), unix_ms());
  }
  std::string end_of_life() const;  // for the log
  bool reap();                      // true once the process itself has ended
  void take_signals();
  void drain();
  std::vector<ProcStat> leftovers() const;
  void end_leftovers();

  Root root_;
  wire::agent::ProcessSpec spec_;
  SafePath folder_;
  UniqueFd lock_;  // held until we exit: one supervisor per name
  LogWriter log_;
  ProcStat guard_;
  sigset_t signals_{};
  UniqueFd signal_fd_;
  int memory_ = -1;
  UniqueFd output_;
  Notices notices_;
  pid_t child_ = -1;  // none yet
  int wait_status_ = 0;
  rusage used_{};
  bool is_told_to_end_ = false;
  bool is_told_to_save_ = false;  // this life, when it was started
  bool is_end_counted_ = false;   // of the life before: by the supervisor that was killed
  std::uint32_t life_ = 0;
  TimePoint started_at_;
  RestartPolicy restarts_;
  PulseWatch watch_;
  TimePoint looked_at_;
  std::string hang_;  // why this life was killed, or ""
  OomWatch oom_;
  std::uint64_t out_of_memory_bytes_ = 0;  // as in an ExitRecord
};

}  // namespace paddle::agent
