// Claims a job for a command on all connected nodes, by the rules of proto/command_order.h for two
// commands on one job.
#pragma once

#include <optional>
#include <string>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"

namespace paddle::cli {

struct ClaimTerms {
  JobCommand command = JobCommand::kTrain;
  std::string process = {};  // for kRestartProcess
  bool fresh = false;        // kUsage if the job has processes, running or not
  bool idle = false;         // kUsage while the job runs
  bool patient = true;       // false: a command that is in the way refuses
};

struct Claimed {
  std::optional<remote::JobClaim> refused_by;  // then nothing is claimed
  bool has_waited = false;  // the job may have been replaced or removed meanwhile
  bool is_joined = false;   // the command that it waited for did the same work
};

// Waits for commands that are in the way, and prints what they do. The claim ends with the session,
// with end_claims(), or when another claim of this session replaces it. A command that ends or
// fetches a job goes on even if a node has no room for a claim. kInterrupted: Ctrl-C.
Result<Claimed> claim_job(Context& context, ClusterSession& session, const std::string& job,
                          const ClaimTerms& terms);
// claim_job(), but a refusal is an error.
Status claim_or_refuse(Context& context, ClusterSession& session, const std::string& job,
                       const ClaimTerms& terms);
// Publishes the phase of this command to commands that wait for it. kFailed: its claim was revoked.
Status note_phase(Context& context, ClusterSession& session, const std::string& job,
                  const ClaimTerms& terms, const std::string& phase);
void release_claim(ClusterSession& session, const std::string& job);

// "paddlectl stop of alice@laptop, pid 12, saves and ends job-1 (waits for its trainers)".
std::string describe(const remote::JobClaim& claim, const std::string& job);
// kUsage: says what `holder` does, and how to continue.
Error refusal(const remote::JobClaim& holder, JobCommand newcomer, const std::string& job);

}  // namespace paddle::cli
