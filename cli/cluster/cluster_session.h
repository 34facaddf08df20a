// Connections to the agents of a cluster's nodes, and parallel calls on all of them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/cluster/cluster_file.h"
#include "cli/cluster/context.h"

namespace paddle::cli {

struct Member {
  std::size_t node = 0;  // index in ClusterSpec::nodes
  remote::NodeSpec spec;
  std::unique_ptr<remote::AgentClient> client;  // null while not connected
  bool absent = false;                          // the node has no folder of the cluster
  std::optional<Error> error;                   // of the connection, or of the last call
};

struct ProcessOnNode {
  std::size_t member = 0;
  remote::ProcessStatus status;
};

// Leaves out what a node that was away for a while still knows of an earlier run of a job, unless
// one of its processes runs or ended well.
void leave_out_former_runs(std::vector<ProcessOnNode>& processes);

// How many processes a job has, counted from those that were seen on the nodes reached.
struct JobSize {
  std::size_t trainers = 0, pservers = 0;
  bool all_seen = false;  // no node that was not reached has a process of the job
};
// The counts that the processes carry in their records.
JobSize size_of_job(const std::vector<ProcessOnNode>& processes);

// A node's resource usage, and when it was asked by the local clock.
struct NodeLook {
  remote::NodeUsage usage;
  TimePoint asked, answered;
};
struct ClusterLook {
  std::vector<ProcessOnNode> processes;        // as ClusterSession::processes
  std::vector<std::optional<NodeLook>> nodes;  // by member; nothing of one not connected
};

class ClusterSession {
 public:
  // Connects in parallel; a node that failed has its error and no client. open prepares a node
  // where it must; find leaves one without our folder as it is. all: every node of the cluster.
  static ClusterSession open(Context& context, const ClusterSpec& cluster,
                             const std::vector<std::size_t>& nodes);
  static ClusterSession find(Context& context, const ClusterSpec& cluster,
                             const std::vector<std::size_t>& nodes);
  static ClusterSession find_all(Context& context, const ClusterSpec& cluster);

  // Reaches no node before visit().
  static ClusterSession unconnected(const ClusterSpec& cluster,
                                    const std::vector<std::size_t>& nodes);
  // Reaches each node (preparing it where it must), calls work and leaves it again, at most
  // --parallel nodes at a time; none after Ctrl-C. Errors as of each().
  Status visit(Context& context, const std::function<Status(Member&)>& work);

  std::vector<Member>& members() { return members_; }
  const std::vector<Member>& members() const { return members_; }
  std::size_t index_of(const Member& member) const {
    return static_cast<std::size_t>(&member - members_.data());
  }
  Member* find_node(std::size_t node);
  std::size_t unreachable() const;
  // Whether every node of the cluster is a member and was reached or is known to have nothing of
  // ours.
  bool sees_whole_cluster() const {
    return unreachable() == 0 && members_.size() == cluster_nodes_;
  }

  // One error that names every failed node, with the code of the gravest; nothing when all are
  // well.
  Status all_well() const;
  // Clears the errors of nodes where nothing of the cluster is left, for commands that remove.
  void forgive_absent();
  // Leaves out the members that were not reached, and returns their names. among: names of those
  // that may be left out; null: all.
  std::vector<std::string> leave_out_unreachable(const std::vector<std::string>* among = nullptr);
  // Calls work on every connected member in parallel; its error stays in Member::error and comes
  // back combined.
  Status each(const std::function<Status(Member&)>& work);
  // The processes of a job ("": all jobs) on the connected nodes, by start time. Lost nodes keep
  // their error. Processes of a node that was away while the job was started again without it are
  // left out, unless one of them runs or ended well.
  std::vector<ProcessOnNode> processes(const std::string& job);
  // With those too: a command that gives keys believes neither of two nodes that claim a process.
  std::vector<ProcessOnNode> all_records(const std::string& job);
  // The same with resource usage of processes and nodes.
  ClusterLook look(const Clock& clock, const std::string& job);
  // Connects those without a client again, and prepares none.
  void reconnect(Context& context) { connect(context, false); }
  // Calls AgentClient::set_patience of all that are connected.
  void set_patience(Duration patience);
  // Calls AgentClient::set_interrupted of all that are connected.
  void set_interrupted(const std::function<bool()>& interrupted);

 private:
  void connect(Context& context, bool create);
  // Collects the answers of all connected members in one list.
  std::vector<ProcessOnNode> gather(
      const std::function<Result<std::vector<remote::ProcessStatus>>(Member&)>& ask);

  std::vector<Member> members_;
  std::size_t cluster_nodes_ = 0;  // with those that are no members
  std::size_t at_once_ = kNodesAtOnce;
};

// The job asked for, or else the latest. kUsage when there is none.
Result<std::string> choose_job(ClusterSession& session, const std::string& asked);

}  // namespace paddle::cli
