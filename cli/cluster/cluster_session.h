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
  double price_per_hour = 0;  // of a provider's node, if it is known
  std::string currency = {};
  std::unique_ptr<remote::AgentClient> client;  // null while not connected
  bool absent = false;                          // the node has no folder of the cluster
  remote::NodeIdentity identity = {};           // as last seen; of an absent node, if it was asked
  std::string loss_reason = {};                 // why the node was lost, in its provider's words
  bool is_examined = false;                     // identity and loss_reason are those of its loss
  std::optional<Error> error;                   // from the connection, or from the last call
};

struct ProcessOnNode {
  std::size_t member = 0;
  remote::ProcessStatus status;
};

// Removes the records of a job's earlier runs. A node has such records if it was unreachable when
// the job was started again. They stay if one of the node's processes of the job still runs or has
// finished its work.
void leave_out_former_runs(std::vector<ProcessOnNode>& processes);

// How many processes a job has, counted from those that were seen on the nodes reached.
struct JobSize {
  std::size_t trainers = 0, pservers = 0;
  bool all_seen = false;  // the nodes not reached have no process of the job
};
// The counts that the processes carry in their records.
JobSize size_of_job(const std::vector<ProcessOnNode>& processes);

// A node's resource usage, and the local times of the request and of the answer.
struct NodeLook {
  remote::NodeUsage usage;
  TimePoint asked, answered;
};
struct ClusterLook {
  std::vector<ProcessOnNode> processes;        // see ClusterSession::processes
  std::vector<std::optional<NodeLook>> nodes;  // by member; empty if it is not connected
};

// Connects to the member's node, and prepares it if it needs that and `create` is true. Sets the
// member's client, or else its error; without a folder of the cluster it is absent as well.
void connect_member(Context& context, Member& member, bool create);

class ClusterSession {
 public:
  // Connect to the nodes in parallel; a node that failed has its error and no client. open()
  // prepares a node that needs it; find() leaves a node without the cluster's folder as it is.
  // find_all() is find() for every node of the cluster.
  static ClusterSession open(Context& context, const ClusterSpec& cluster,
                             const std::vector<std::size_t>& nodes);
  static ClusterSession find(Context& context, const ClusterSpec& cluster,
                             const std::vector<std::size_t>& nodes);
  static ClusterSession find_all(Context& context, const ClusterSpec& cluster);

  // Connects to no node; visit() does that later, or connect_member().
  static ClusterSession unconnected(const ClusterSpec& cluster,
                                    const std::vector<std::size_t>& nodes);
  // Connects to each node (and prepares a node that needs it), calls work and disconnects, at most
  // --parallel nodes at a time. Ctrl-C keeps it from starting on further nodes. Errors as in
  // each().
  Status visit(Context& context, const std::function<Status(Member&)>& work);

  std::vector<Member>& members() { return members_; }
  const std::vector<Member>& members() const { return members_; }
  std::size_t index_of(const Member& member) const {
    return static_cast<std::size_t>(&member - members_.data());
  }
  Member* find_node(std::size_t node);
  std::size_t unreachable() const;
  // Whether every node of the cluster is a member, and each was reached or is known to have no
  // folder of the cluster.
  bool sees_whole_cluster() const {
    return unreachable() == 0 && members_.size() == cluster_nodes_;
  }

  // One error that names every failed node and has the code of the gravest error; OK if no node
  // failed.
  Status all_well() const;
  // Clears the errors of nodes that have no folder of the cluster, for commands that remove things.
  void forgive_absent();
  // Leaves out the members that were not reached, and returns their names. among: the names that
  // may be left out; null: all.
  std::vector<std::string> leave_out_unreachable(const std::vector<std::string>* among = nullptr);
  // Calls work on every connected member in parallel. Each member's error is stored in
  // Member::error; the result combines them.
  Status each(const std::function<Status(Member&)>& work);
  // The processes of a job ("": all jobs) on the connected nodes, by start time. A node that is
  // lost during the call keeps its error. Leaves out the records that leave_out_former_runs()
  // removes: those of a node that was away while the job was started again without it.
  std::vector<ProcessOnNode> processes(const std::string& job);
  // processes(), with the records that it leaves out. For a command that gives keys to processes:
  // when two nodes claim the same process, it trusts neither.
  std::vector<ProcessOnNode> all_records(const std::string& job);
  // processes(), with the resource usage of processes and nodes.
  ClusterLook look(const Clock& clock, const std::string& job);
  // Connects again to the members without a client; prepares no node.
  void reconnect(Context& context) { connect(context, false); }
  // Lets reconnect() look again at a node that had no folder of the cluster.
  void look_again(std::size_t member);
  // Calls AgentClient::set_patience on every connected member.
  void set_patience(Duration patience);
  // Calls AgentClient::set_interrupted on every connected member.
  void set_interrupted(const std::function<bool()>& interrupted);

 private:
  void connect(Context& context, bool create);
  // Collects the answers of all connected members in one list.
  std::vector<ProcessOnNode> gather(
      const std::function<Result<std::vector<remote::ProcessStatus>>(Member&)>& ask);

  std::vector<Member> members_;
  std::size_t cluster_nodes_ = 0;  // all nodes of the cluster, not only the members
  std::size_t at_once_ = kNodesAtOnce;
};

// ClusterSession::all_well(). If some nodes are not reached, the error's hint names the nodes that
// remain for --on.
Status all_reached(const ClusterSpec& cluster, const ClusterSession& session);
// The job `asked`, or the latest job if `asked` is "". kUsage: there is no such job.
Result<std::string> choose_job(ClusterSession& session, const std::string& asked);

}  // namespace paddle::cli
