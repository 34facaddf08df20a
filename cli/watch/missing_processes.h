// Processes of a job that no node shows: its start was broken off, or the nodes that had them are
// lost.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"

namespace paddle::cli {

// The start of a job that was broken off: paddlectl ended before it had started all processes.
// Whatever is left of a job that lost the node of a process for good looks alike.
struct BrokenStart {
  std::vector<std::string> running, missing;  // processes; `missing` were never started
  std::uint32_t trainers = 0, pservers = 0;   // of the whole job
  bool is_first_start = true;                 // of every process
  bool has_trained = false;                   // as its files tell: a node was lost since
};

// Nothing for a job that is complete, has trained, or is being started by a paddlectl: one that
// lives holds the job's claim. Only two looks in a row are a proof, since claims are released on
// one node after the other. Nothing either unless the session sees the whole cluster.
std::optional<BrokenStart> broken_start(const ClusterSession& session,
                                        const std::vector<ProcessOnNode>& processes);
// Looks twice, and then at the files of the job, which tell whether it has trained.
std::optional<BrokenStart> find_broken_start(Context& context, ClusterSession& session,
                                             const std::string& job);

// Whether the job has trained, as its files on the nodes tell.
bool has_trained(ClusterSession& session, const std::string& job);
// Whether a process has made a batch, or reached the end of the job.
bool has_worked(const remote::ProcessStatus& status);

// "the start of job was broken off: trainer-0 was never started; pserver-0 runs"; after the first
// start, or where the job has trained, "job is incomplete: no node has trainer-0; pserver-0 runs".
std::string describe(const BrokenStart& broken, const std::string& job);

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

// Nodes that a job has lost: they had processes of it, and know nothing of it any more.
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
