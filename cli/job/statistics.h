// The statistics of a job's training data, by which its trainers prepare columns: made on the nodes
// that have the data, and the same file for all trainers.
#pragma once

#include <optional>
#include <string>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"
#include "cli/job/plan.h"
#include "cli/job/workspace.h"
#include "engine/config/data_config.h"

namespace paddle::cli {

constexpr const char* kStatisticsFile = "statistics.json";  // in a job's folder, here and on nodes

struct StatisticsRequest {
  std::string engine;    // below root: "bin/paddle-<hash16>"
  std::string output;    // folder of results
  std::string snapshot;  // the job continues from it, "pass-00002"; "": it begins anew
  // A new training begins with the parameters of this snapshot.
  std::optional<StartSnapshot> from = {};
  config::DataConfig data = {};  // of the job, without statistics
};

// Gives a job whose slots need statistics the file jobs/<job>/statistics.json on every node, and
// <output>/<job>/statistics.json here. A job that continues, or begins with a snapshot's
// parameters, has the statistics of that snapshot, for which its parameters were trained. Otherwise
// `paddle statistics` reads each trainer's data on its node, and the parts are merged here: the
// file has the same bits for any number of trainers. Does nothing for other jobs. Fails with the
// error of a node's program, which names the node. kData: a snapshot's statistics are not for the
// job's slots.
Status give_statistics(Context& context, ClusterSession& session, const JobPlan& plan,
                       const Workspace& workspace, const StatisticsRequest& request);

}  // namespace paddle::cli
