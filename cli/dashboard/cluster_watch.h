// Looks at all nodes of a cluster again and again: one session, one round after the other, on one
// thread. A job's files are read only as far as they have grown.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"
#include "cli/dashboard/live.h"
#include "cli/dashboard/live_job.h"
#include "cli/dashboard/live_store.h"
#include "cli/dashboard/log_tail.h"
#include "cli/dashboard/reconnection.h"

namespace paddle::cli {

// A node that does not answer for so long counts as lost until it is connected again; a shorter
// --timeout counts.
constexpr auto kWatchPatience = std::chrono::seconds(4);
constexpr std::size_t kJobsWatchedMax = 1'000;  // the newest of a cluster
constexpr std::size_t kLogsKeptMax = 32;        // logs in memory; see LogTail

struct LogRequest {
  std::string job, process;
  std::optional<std::uint64_t> offset;
  std::function<void(Result<LogPart>)> done;
};

class ClusterWatch {
 public:
  // `output`: see LiveJob::take(). Connects to no node yet.
  ClusterWatch(Context& context, const ClusterSpec& cluster, std::string output);

  // Looks at every connected node. `wanted`: the jobs whose whole record is wanted. `crowded`:
  // those that viewers look at and that get no record; they say so. Jobs with another name than
  // check_job_name() allows are left out. The data of the event "cluster":
  //   {unix_ms, cluster, nodes: [{node, state, error, cores, memory_bytes, memory_available_bytes,
  //   cores_busy, gpus, in_per_s, out_per_s}], jobs: LiveJob::summary(), the newest first}
  // state: "ready", "unreachable", "absent" (without the cluster's folder), or "connecting" until
  // the first attempt has ended. Numbers that are not known are null.
  LiveStore::Look round(const std::set<std::string>& wanted,
                        const std::set<std::string>& crowded = {});
  // Whether files have more than the last round has read.
  bool has_more() const { return has_more_; }
  // Whether an attempt to connect has ended since the last round.
  bool has_new_connections() const { return reconnection_.has_news(); }
  bool is_connecting() const { return reconnection_.is_trying(); }
  // Answers the requests, after a read of each log at most once a second. REQUIRES: at most
  // kLogsKeptMax requests.
  void read_logs(std::vector<LogRequest> requests);
  // Waits until every attempt to connect that is in progress has ended.
  void wait_for_connections() { reconnection_.wait(); }

 private:
  struct KeptLog {
    LogTail tail;
    TimePoint used_at{};
  };
  struct NodeRates {
    std::optional<double> cores_busy, in_per_s, out_per_s;
  };
  void read_files();
  void note_rates(const ClusterLook& look);
  Json cluster_json() const;
  Json node_json(std::size_t index) const;
  std::vector<const LiveJob*> newest_first() const;
  std::string metrics() const;
  // Where the log of a request is; an error for what is not known or cannot be reached.
  Result<LiveJob::LogFile> find_log(const LogRequest& request) const;
  LogTail& tail_of(const LogRequest& request, const std::string& path);

  Context& context_;
  ClusterSpec cluster_;
  std::string output_;
  ClusterSession session_;
  Reconnection reconnection_;
  std::vector<MachineRecord> machines_;                   // by member; no name: not known
  std::vector<std::optional<remote::NodeUsage>> usages_;  // by member, as last seen
  std::vector<NodeRates> rates_;                          // by member, since the look before
  std::map<std::string, LiveJob> jobs_;
  bool has_more_ = false;
  std::map<std::pair<std::string, std::string>, KeptLog> logs_;  // by job and process
};

}  // namespace paddle::cli
