// Follows a started job to its end and fetches its results.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"
#include "cli/commands/shared_options.h"
#include "cli/job/results.h"

namespace paddle::cli {

// The folder for results, and the snapshots to fetch.
struct Destination {
  std::string output;  // absolute
  PassChoice passes;
};
// kUsage: the choice of passes is not valid.
Result<Destination> destination(const Context& context, const ResultsOptions& options);

// The next step for a job that has ended, for a hint or a note: "resume with: paddlectl train
// --resume ...", with `lead` before the colon. If nothing of the job was saved: how to start it
// from the beginning.
std::string next_step(const Context& context, ClusterSession& session, const std::string& job,
                      const std::string& output, std::string_view lead);

// Stops the rest of a job that failed with `error`. Returns that error, with what could not be
// stopped added. `output`: the folder of results.
Error stop_after(Context& context, ClusterSession& session, const std::string& job,
                 const std::string& output, Error error);

// Starts a job again that has lost the processes of a node: as `train --resume`, or from its
// beginning if it has no snapshot. Waits for the nodes until `deadline`. `session`, which holds the
// job's claim meanwhile, becomes the session of the new start. Returns the tests of earlier runs.
using StartAgain = std::function<Result<std::size_t>(Context& context, ClusterSession& session,
                                                     TimePoint deadline)>;

// start_again of `attach`, which takes all options from the job's last run.
StartAgain start_as_before(const ResultsOptions& options, const std::string& job);

// Follows a job that ends with this terminal: Ctrl-C makes it save and stop. Logs are fetched after
// a failure as well. past_tests: the number of tests in the metrics that belong to an earlier run.
// A job with --restarts whose nodes are replaced or restarted is started again.
Status follow_to_end(Context& context, ClusterSession& session, const std::string& job,
                     const Destination& to, std::size_t past_tests, const StartAgain& start_again);

}  // namespace paddle::cli
