// Events of a job with their times: starts, tests, snapshots, warnings, restarts, stalls, ends.
#pragma once

#include <string>
#include <vector>

#include "cli/report/record.h"

namespace paddle::cli {

// Collects the engine's warnings and errors in a process's log, and the supervisor's notes about
// restarts: the last ones.
class LogEvents {
 public:
  // `process`: as far as it is known. A line of the engine has no year and no time zone; if the
  // node's is not known, its event gets the time of the process's end, or else of its start. A note
  // gets the time of the engine's line after it.
  explicit LogEvents(const ProcessRecord& process);

  // unix_ms: when the line was written, by the node's clock; 0: not known. It replaces a time that
  // would be estimated.
  void take(const std::string& line, std::int64_t unix_ms = 0);
  const std::vector<JobEvent>& found() const { return found_; }

 private:
  // The note "it is started again" includes the start that follows it; any other start is from a
  // user's command.
  void take_note(std::string note, std::int64_t unix_ms);
  void add(std::int64_t when, std::string text, bool is_bad, bool is_said = false);

  std::string role_;
  std::optional<std::int64_t> utc_offset_s_;
  std::int64_t end_ms_ = 0;
  std::vector<JobEvent> found_;
  std::size_t untimed_ = 0;    // the last events, which wait for a line with a time
  bool starts_again_ = false;  // by the last note
};

// The events of a process's log in the job's folder.
std::vector<JobEvent> log_events(const std::string& folder, const ProcessRecord& process);

// The events by time, with those in `of_logs`. Processes that start or end in the same way are one
// event.
std::vector<JobEvent> events_of(const JobRecord& record, std::vector<JobEvent> of_logs);

}  // namespace paddle::cli
