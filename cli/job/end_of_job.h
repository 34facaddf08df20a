// The end of a running job, by what its nodes report: follows the job to its end, stops it with a
// snapshot, or ends it immediately.
#pragma once

#include <string>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"
#include "cli/watch/feed.h"

namespace paddle::cli {

// A stop fails when no trainer has made progress (a batch or a save) for this long, ...
constexpr auto kStopSilenceMax = std::chrono::seconds(60);
// ... and in any case after this time, because a user's own program does not report its progress.
constexpr auto kCleanStopDeadline = std::chrono::minutes(10);

// Asks every running trainer to finish its batch and save. Does not wait.
Status ask_job_to_stop(ClusterSession& session, const std::string& job);
// Whether a running trainer waits for a trainer that was stopped before it began; no round
// continues without that trainer.
bool waits_in_vain(const std::vector<ProcessOnNode>& processes);
// Waits until no trainer of the job runs that can still save, and prints which ones it waits for.
// kFailed: they do not stop in time. kInterrupted: Ctrl-C.
Status wait_for_trainers(Context& context, ClusterSession& session, const std::string& job);
// "j was ended by paddlectl stop --now of alice@laptop, pid 12, without saving a snapshot": for a
// job that a request to stop ended before all of it was saved.
std::string describe_unsaved(const std::vector<ProcessOnNode>& processes, const std::string& job);
// Ends every process of the job. A node without the cluster's folder is no error.
Status stop_job(ClusterSession& session, const std::string& job);

// "waiting for node n0, which has been gone for 20s".
std::string describe_wait(const std::string& node, Duration waited);

// Returns OK when all trainers have ended well. Stops nothing. Errors: the first cause of a
// failure, or:
// kResumable: the trainers stopped as asked.
// kInterrupted: Ctrl-C; a stop that came before all trainers had begun; or another terminal ended
// the job at once or removed it.
// kFailed with JobSummary::returned_nodes: these nodes were replaced or restarted, and the job can
// be started again there. Under --restarts, a node that does not answer is awaited for ten minutes,
// or for --timeout.
// kUnreachable: a node is lost, or stays silent, so that its processes may still run;
// JobSummary::stands_still is true if the job makes no progress on the other nodes.
// A job that another command starts again has not ended. At the end of the job the session has
// claimed it, so that no command starts it before the caller has stopped and fetched the rest.
// past_tests: see JobFeed.
Status follow_job(Context& context, ClusterSession& session, const std::string& job,
                  JobSummary& summary, std::size_t past_tests = SIZE_MAX);
// follow_job() without output and without a claim. kUnreachable: also at the deadline.
Status wait_for_end(Context& context, ClusterSession& session, const std::string& job,
                    TimePoint deadline);
// Handles Ctrl-C for a job that ends with this terminal: asks it to stop and save, and follows it
// to that end. Errors as in follow_job(), but kInterrupted also means another Ctrl-C; kFailed as in
// wait_for_trainers().
Status follow_to_stop(Context& context, ClusterSession& session, const std::string& job,
                      JobSummary& summary);

}  // namespace paddle::cli
