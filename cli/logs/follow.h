// The logs of a job's processes as one sequence of lines, read from all nodes at once.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"
#include "cli/logs/merge.h"

namespace paddle::cli {

struct LogSource {
  std::size_t member = 0;
  std::string node, role;
};

struct LogFollowOptions {
  std::int64_t tail = -1;  // lines of each log; -1: all
  std::string since;       // as parse_since takes it; "": no matter
  std::function<bool(const ProcessOnNode&, const std::string& node)> wanted;
  // Which file; null: the log.
  std::function<std::string(const remote::ProcessStatus&)> path;
  // When a line was written, for a file whose times the agent does not keep; null: it does.
  std::function<std::int64_t(const std::string& line)> time_of;
};

class LogFollow {
 public:
  LogFollow(Context& context, ClusterSession& session, std::string job, LogFollowOptions options)
      : context_(context), session_(session), job_(std::move(job)), options_(std::move(options)) {}

  // Reads what is new everywhere. `follow`: up to now, so that lines written by now come in order
  // of time; else every log to its end, and it is closed. Nodes that fail keep their error.
  Status read(bool follow);
  // The next line whose turn it is.
  std::optional<LogMerge::Line> next() { return merge_.next(complete_until_); }

  const LogSource& source(std::size_t index) const { return logs_[index].source; }
  std::size_t size() const { return logs_.size(); }
  // Of "node/role", the longest yet.
  std::size_t label_width() const { return label_width_; }
  bool any_running() const { return any_running_; }
  bool all_read() const;

 private:
  struct Log {
    LogSource source;
    LogReader reader;
    std::int64_t skew_ms = 0;  // what the node's clock is ahead of the first node's
    std::int64_t node_now_ms = 0;
    bool begun = false;
    bool process_ended = false;
    bool caught_up = false;
  };

  void find_logs(const ClusterLook& look);
  void set_time(const Log& log, LogLine& line) const;
  Status read_log(remote::AgentClient& client, std::size_t index, bool follow);
  Result<std::vector<LogLine>> read_some(remote::AgentClient& client, Log& log);

  Context& context_;
  ClusterSession& session_;
  std::string job_;
  LogFollowOptions options_;
  std::vector<Log> logs_;
  std::map<std::string, std::size_t> by_name_;  // of processes
  LogMerge merge_;
  std::int64_t complete_until_ = kNothingYet;
  std::size_t label_width_ = 0;
  bool any_running_ = false;
};

// What each node's clock is ahead of the first one's, in ms; 0 where the two may agree, as far as
// their answers' round trips tell.
std::vector<std::int64_t> clock_skews(const std::vector<std::optional<NodeLook>>& nodes);

}  // namespace paddle::cli
