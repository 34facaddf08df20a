// Processes of a job that no node shows: either the job's start was broken off, or the nodes that
// had them are lost.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"

namespace paddle::cli {

// A start that was broken off: paddlectl ended before it had started all processes. A job that
// permanently lost the node of a process looks the same.
struct BrokenStart {
  std::vector<std::string> running, missing;  // `missing`: never started
  std::uint32_t trainers = 0, pservers = 0;   // the whole job's counts
  bool is_first_start = true;                 // every process is in its first start
  bool has_trained = false;                   // by its files: then a node was lost later
};

// Nothing if the job is complete, has trained, or is being started by another paddlectl, which
// holds the job's claim. Claims are released on one node after the other, so only two calls in a
// row are a proof. Also nothing unless the session sees the whole cluster.
std::optional<BrokenStart> broken_start(const ClusterSession& session,
                                        const std::vector<ProcessOnNode>& processes);
// Calls broken_start() twice, and then checks by the job's files whether it has trained.
std::optional<BrokenStart> find_broken_start(Context& context, ClusterSession& session,
                                             const std::string& job);

// Whether the job has trained, by its files on the nodes.
bool has_trained(ClusterSession& session, const std::string& job);
// Whether a process has trained a batch, or has reached the end of the job.
bool has_worked(const remote::ProcessStatus& status);

// "the start of job was broken off: trainer-0 was never started; pserver-0 runs". After the first
// start, or if the job has trained: "job is incomplete: no node has trainer-0; pserver-0 runs".
std::string describe(const BrokenStart& broken, const std::string& job);

// A node of a job's start, as jobs/<job>/nodes.jsonl has it on each of the job's nodes: so a
// command that never saw a node knows what ran there, and that its folder is another one now.
constexpr const char* kNodesFile = "nodes.jsonl";
struct RecordedNode {
  std::uint64_t run = 0;  // see ProcessStatus::run
  std::string node;
  remote::NodeIdentity identity;
  std::vector<std::string> processes;
};
std::string encode(const std::vector<RecordedNode>& nodes);
// Leaves out what it cannot read.
std::vector<RecordedNode> decode_nodes(std::string_view text);
// The nodes of the latest run that any connected node has a record of.
std::vector<RecordedNode> recorded_nodes(ClusterSession& session, const std::string& job);

// The members of the session on which the processes of a job were last seen, by process name, and
// the identities that these nodes had. Processes that ended well are not included, because nothing
// is lost with their records.
class ProcessPlaces {
 public:
  void note(const ClusterSession& session, const std::vector<ProcessOnNode>& processes);
  // Adds the recorded processes that were never seen, of nodes that have no folder of the cluster
  // now, or another one than then.
  void learn(const ClusterSession& session, const std::vector<RecordedNode>& nodes);
  const std::map<std::string, std::size_t>& of_process() const { return of_process_; }
  // Whether the identity that the member had is known.
  bool knows(std::size_t member) const { return nodes_.contains(member); }
  // Whether another machine, container or pod has the member's name now, or the member was started
  // again. False if that is not known.
  bool is_other_machine(const ClusterSession& session, std::size_t member) const;
  // Whether the member has another folder of the cluster now.
  bool is_other_folder(const ClusterSession& session, std::size_t member) const;

 private:
  std::map<std::string, std::size_t> of_process_;
  std::map<std::size_t, remote::NodeIdentity> nodes_;  // by member
};

// The processes of a job that no node shows, although they were seen before or the records of other
// processes show that the job has them.
std::vector<std::string> missing_processes(const std::vector<ProcessOnNode>& processes,
                                           const ProcessPlaces& places = {});

// Nodes that a job has lost: they had processes of it, and have no record of it any more.
struct LostNodes {
  Error error;  // kUnreachable
  // True if processes that were seen before are lost. Otherwise a node may only have been removed
  // from the cluster file or renamed in it, and the job may still run.
  bool were_seen = false;
  bool is_absent = false;                 // a node of the session has nothing of the cluster
  std::vector<std::size_t> members = {};  // those whose processes were seen, or are recorded
  // True if each of these nodes is another machine, container or pod under the same name, so that
  // no command has removed the job.
  bool is_replaced = false;
};

// "node n0 is lost: it no longer has a folder of this cluster; pserver-0, trainer-0 of j ran
// there", or "node n0 was replaced: its folder is new (another machine, container or pod under its
// name); ..." with kFailed, because the node answers; also if no node has any process of the job
// any more but other nodes of the cluster answer. For a process whose node is not known: "no node
// has trainer-2 of j". Nothing while a node does not answer, or while a paddlectl starts the job. A
// process that was never seen counts only if the session has every node of the cluster and the job
// has trained; otherwise the job's start was broken off.
std::optional<LostNodes> find_lost_nodes(const ClusterSession& session, const std::string& job,
                                         const std::vector<ProcessOnNode>& processes,
                                         const ProcessPlaces& places = {});
// find_lost_nodes(), after it has asked the nodes for what distinguishes the causes: for the nodes
// of processes that were never seen, for the machines of nodes that have no folder of the cluster,
// and the provider for its reason.
std::optional<LostNodes> look_for_lost_nodes(Context& context, ClusterSession& session,
                                             const std::string& job,
                                             const std::vector<ProcessOnNode>& processes,
                                             ProcessPlaces& places);
// "node n0 was restarted (another start of its machine, container or pod)", with the provider's
// reason; "" if it was not, or that is not known.
std::string describe_restart(Context& context, ClusterSession& session, std::size_t member,
                             const ProcessPlaces& places);

}  // namespace paddle::cli
