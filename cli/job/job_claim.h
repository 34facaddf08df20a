// The claim of a command on a job, on all connected nodes: what proto/command_order.h says of two
// commands on one job, carried out.
#pragma once

#include <optional>
#include <string>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"

namespace paddle::cli {

struct ClaimTerms {
  JobCommand command = JobCommand::kTrain;
  std::string process = {};  // of kRestartProcess
  bool fresh = false;        // kUsage where the job has processes, running or not
  bool idle = false;         // kUsage while the job runs
  bool patient = true;       // false: whoever is in the way refuses
};

struct Claimed {
  std::optional<remote::JobClaim> refused_by;  // then nothing is claimed
  bool has_waited = false;  // the job may be another one now than before, or gone
  bool is_joined = false;   // the one that was waited for had the same to do
};

// Waits for commands that are in the way, and says what they do. The claim ends with the session,
// by end_claims(), or when another one of this session takes its place. A command that ends or
// fetches goes on where a node has no room for a claim. kInterrupted after Ctrl-C.
Result<Claimed> claim_job(Context& context, ClusterSession& session, const std::string& job,
                          const ClaimTerms& terms);
// As an error, where the command cannot be refused or has to end then.
Status claim_or_refuse(Context& context, ClusterSession& session, const std::string& job,
                       const ClaimTerms& terms);
// Tells those who wait for this command how far it is. kFailed when its claim was revoked.
Status note_phase(Context& context, ClusterSession& session, const std::string& job,
                  const ClaimTerms& terms, const std::string& phase);
void release_claim(ClusterSession& session, const std::string& job);

// "paddlectl stop of alice@laptop, pid 12, saves and ends job-1 (waits for its trainers)".
std::string describe(const remote::JobClaim& claim, const std::string& job);
// kUsage: what `holder` does, and how to go on.
Error refusal(const remote::JobClaim& holder, JobCommand newcomer, const std::string& job);

}  // namespace paddle::cli
