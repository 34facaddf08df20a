// A started job followed to its end, and its results brought home.
#pragma once

#include <string>
#include <string_view>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"
#include "cli/job/results.h"
#include "cli/options/shared_options.h"

namespace paddle::cli {

// Where results go, and which snapshots are among them.
struct Destination {
  std::string output;  // absolute
  PassChoice passes;
};
// kUsage: no such choice of passes.
Result<Destination> destination(const Context& context, const ResultsOptions& options);

// The next step for a job that has ended, for a hint or a note: "resume with: paddlectl train
// --resume ...", `lead` before the colon; or, where nothing of it was saved, how it begins anew.
std::string next_step(const Context& context, ClusterSession& session, const std::string& job,
                      const std::string& output, std::string_view lead);

// Stops the rest of a job that failed with `error`, and returns that error with whatever could not
// be stopped added to it. `output`: the folder of results.
Error stop_after(Context& context, ClusterSession& session, const std::string& job,
                 const std::string& output, Error error);

// Follows a job that ends with this terminal: Ctrl-C asks it to save and stop. Logs are fetched
// after a failure as well. past_tests: so many of the metrics are of an earlier run.
Status follow_to_end(Context& context, ClusterSession& session, const std::string& job,
                     const Destination& to, std::size_t past_tests);

}  // namespace paddle::cli
