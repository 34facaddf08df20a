// Nodes that a job has lost: they had processes of it, and know nothing of it any more.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/cluster/cluster_session.h"

namespace paddle::cli {

// Where the processes of a job were last seen: members of the session, by the names of processes.
// Those that ended well are not among them, since nothing is lost with their records.
class ProcessPlaces {
 public:
  void note(const std::vector<ProcessOnNode>& processes);
  const std::map<std::string, std::size_t>& of_process() const { return of_process_; }

 private:
  std::map<std::string, std::size_t> of_process_;
};

// The processes of a job that no node shows, though its other processes tell that there are so
// many, or they were seen before.
std::vector<std::string> missing_processes(const std::vector<ProcessOnNode>& processes,
                                           const ProcessPlaces& places = {});

struct LostNodes {
  Error error;  // kUnreachable
  // Of processes that were seen before. Else a node may only have been taken out of the cluster
  // file, or be called otherwise in it, and the job may go on.
  bool were_seen = false;
  bool is_absent = false;  // a node of the session has nothing of the cluster
};

// "node n0 is lost: nothing of the cluster is there any more; pserver-0, trainer-0 of j ran there",
// also where no node has any process of it any more and others of the cluster are there; or of a
// process whose place is not known "no node has trainer-2 of j". Nothing while a
// node does not answer, or a paddlectl starts the job. What was never seen counts only where the
// session has every node of the cluster and the job has trained: else its start was broken off.
std::optional<LostNodes> find_lost_nodes(const ClusterSession& session, const std::string& job,
                                         const std::vector<ProcessOnNode>& processes,
                                         const ProcessPlaces& places = {});

}  // namespace paddle::cli
