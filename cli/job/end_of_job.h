// The end of a running job: followed from its nodes alone, asked for with a snapshot, or made at
// once.
#pragma once

#include <string>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"
#include "cli/watch/feed.h"

namespace paddle::cli {

// A stop is given up when no trainer has made progress for so long, be it a batch or a save, ...
constexpr auto kStopSilenceMax = std::chrono::seconds(60);
// ... and in any case after this time: a program of the user's own does not tell its progress.
constexpr auto kCleanStopDeadline = std::chrono::minutes(10);

// Asks every running trainer to finish its batch and save. Does not wait.
Status ask_job_to_stop(ClusterSession& session, const std::string& job);
// Waits until no trainer of the job runs that can still save, and tells whom it waits for. kFailed
// when they do not stop in time, kInterrupted.
Status wait_for_trainers(Context& context, ClusterSession& session, const std::string& job);
// "j was ended by paddlectl stop --now of alice@laptop, pid 12, without a snapshot of where it
// was": of a job that a request to stop has ended before all of it was saved.
std::string describe_unsaved(const std::vector<ProcessOnNode>& processes, const std::string& job);
// Ends every process of the job. A node that has nothing of ours is no error.
Status stop_job(ClusterSession& session, const std::string& job);

// Returns when all trainers ended well. Errors: the first cause of a failure; kResumable when the
// trainers stopped as asked; kInterrupted after Ctrl-C, when a stop came before all trainers had
// begun, and when another terminal ended the job at once or removed it; kUnreachable when a node
// is lost; or stays silent: whether the job goes on there is not known, and
// JobSummary::stands_still tells whether it does elsewhere. Stops nothing. While another command
// starts the job again it has not ended; at its end the session has claimed it, so that nobody
// starts it before the caller has stopped and fetched the rest. past_tests: as of JobFeed.
Status follow_job(Context& context, ClusterSession& session, const std::string& job,
                  JobSummary& summary, std::size_t past_tests = SIZE_MAX);
// As follow_job, but shows nothing while it waits. kUnreachable at the deadline too.
Status wait_for_end(Context& context, ClusterSession& session, const std::string& job,
                    TimePoint deadline);
// Handles Ctrl-C for a job that ends with this terminal: asks it to stop and save, and follows it
// to that end. Errors as of follow_job; kInterrupted now is another Ctrl-C; kFailed as of
// wait_for_trainers.
Status follow_to_stop(Context& context, ClusterSession& session, const std::string& job,
                      JobSummary& summary);

}  // namespace paddle::cli
