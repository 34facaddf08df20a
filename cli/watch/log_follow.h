// The logs of a job's processes as one sequence of lines: read from all nodes in parallel and
// merged in order of time.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"
#include "cli/watch/log_reader.h"

namespace paddle::cli {

constexpr std::int64_t kNothingYet = std::numeric_limits<std::int64_t>::min();

class LogMerge {
 public:
  struct Line {
    std::size_t source = 0;
    LogLine line;
  };

  // first_unix_ms: the time for lines before the first line that has a time.
  std::size_t add_source(std::int64_t first_unix_ms);
  // Appends lines of one log, whose order is kept. A line without a time, or with an earlier time
  // than the line before it, gets the time of the line before.
  void add(std::size_t source, std::vector<LogLine> lines);
  void close(std::size_t source);

  std::size_t waiting(std::size_t source) const { return sources_[source].lines.size(); }
  bool is_closed(std::size_t source) const { return sources_[source].closed; }

  // The earliest line, once no log can produce an earlier one: every open log has a line waiting,
  // or all lines up to `complete_until` have been added.
  std::optional<Line> next(std::int64_t complete_until = kNothingYet);
  // Drop the earliest waiting lines until `lines` are left, of all logs or of one.
  void keep_last(std::size_t lines);
  void keep_last(std::size_t lines, std::size_t source);

 private:
  struct Source {
    std::deque<LogLine> lines;
    std::int64_t last_unix_ms = 0;
    bool closed = false;
  };
  using Front = std::pair<std::int64_t, std::size_t>;  // time of a waiting line, source

  // REQUIRES: a line of the source waits.
  LogLine take_front(std::size_t source);
  static bool is_silent(const Source& source) { return !source.closed && source.lines.empty(); }

  std::vector<Source> sources_;
  std::set<Front> fronts_;  // the first waiting line of each source that has one
  std::size_t silent_ = 0;  // sources that may still produce the earliest line
};

struct LogSource {
  std::size_t member = 0;
  std::string node, role;
};

struct LogFollowOptions {
  std::int64_t tail = -1;  // lines of all logs together; -1: all
  std::string since;       // see parse_since; "": from the beginning
  bool previous = false;   // only the start before the last one; left out if none
  std::function<bool(const ProcessOnNode&, const std::string& node)> wanted;
  // The file to read; null: the log.
  std::function<std::string(const remote::ProcessStatus&)> path;
  // The time of a line, for a file for which the agent keeps no times; null for a log.
  std::function<std::int64_t(const std::string& line)> time_of;
};

class LogFollow {
 public:
  LogFollow(Context& context, ClusterSession& session, std::string job, LogFollowOptions options)
      : context_(context), session_(session), job_(std::move(job)), options_(std::move(options)) {}

  // Reads new lines on all nodes. With `follow`, reads all lines written so far, so that they are
  // printed in order of time; without it, reads each log to its end and closes it. A node that
  // fails keeps its error.
  Status read(bool follow);
  // The next line in order of time, when no earlier line can follow.
  std::optional<LogMerge::Line> next() { return merge_.next(complete_until_); }

  const LogSource& source(std::size_t index) const { return logs_[index].source; }
  std::size_t size() const { return logs_.size(); }
  // Width of the longest "node/role" so far.
  std::size_t label_width() const { return label_width_; }
  bool any_running() const { return any_running_; }
  bool all_read() const;

 private:
  struct Log {
    LogSource source;
    LogReader reader;
    std::int64_t skew_ms = 0;  // the node's clock minus the first node's
    std::int64_t node_now_ms = 0;
    std::uint32_t previous_incarnation = 0;  // number of the start to show; 0: all
    std::uint32_t incarnation = 1;           // number of the start that wrote the next line
    std::int64_t since_ms = 0;               // with `previous`, earlier lines are left out
    std::string shown_state = {};            // last state shown of a line without an end
    TimePoint state_shown_at{};
    bool begun = false;
    bool process_ended = false;
    bool caught_up = false;
  };

  void find_logs(const ClusterLook& look);
  void set_time(const Log& log, LogLine& line) const;
  static void keep_previous_incarnation(Log& log, std::vector<LogLine>& lines);
  void add_lines(std::size_t index, std::vector<LogLine> lines);
  void add_state(std::size_t index, bool follow);
  bool reads_for_tail() const;
  Status read_log(remote::AgentClient& client, std::size_t index, bool follow);
  Result<std::vector<LogLine>> begin(remote::AgentClient& client, Log& log) const;

  Context& context_;
  ClusterSession& session_;
  std::string job_;
  LogFollowOptions options_;
  std::vector<Log> logs_;
  std::map<std::string, std::size_t> by_name_;  // index in logs_, by process
  LogMerge merge_;
  std::int64_t complete_until_ = kNothingYet;
  std::size_t label_width_ = 0;
  bool any_running_ = false;
  bool is_tail_cut_ = false;
};

// Each node's clock minus the first node's, in ms; 0 if the difference is within the round trips of
// the two requests.
std::vector<std::int64_t> clock_skews(const std::vector<std::optional<NodeLook>>& nodes);

}  // namespace paddle::cli
