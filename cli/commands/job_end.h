// The end of a job that a command follows: results fetched, or what is left of it stopped.
#pragma once

#include <string>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"

namespace paddle::cli {

// --output as an absolute path.
std::string results_folder(const Context& context, const std::string& output);

// Stops the pservers of a job whose trainers have ended, fetches and reports. Prints the results'
// folder and the job's state: "done", or "stopped" when it can go on.
Status finish_job(Context& context, ClusterSession& session, const std::string& job,
                  const std::string& output, const std::string& state = "done");

// Stops the rest of a job that failed with `error`, and returns that error with whatever could not
// be stopped added to it.
Error stop_after(Context& context, ClusterSession& session, const std::string& job, Error error);

// Follows a job that ends with this terminal: Ctrl-C asks it to save and stop. Logs are fetched
// after a failure as well.
Status follow_to_end(Context& context, ClusterSession& session, const std::string& job,
                     const std::string& output);

}  // namespace paddle::cli
