// Nodes that were renamed in the cluster file, or taken out of it, and are seen by their folders on
// the machines of its nodes.
#pragma once

#include <string>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"

namespace paddle::cli {

// kFew: the machines of nodes that have nothing of the cluster, and this one; for commands that
// usually find nothing. Each takes another login.
enum class AskedMachines { kAll, kFew };

// "folders of n-2, n-3, which are not in c.toml, are on the machines of this cluster", or "".
std::string describe_unknown_nodes(Context& context, ClusterSession& session,
                                   const ClusterSpec& cluster, AskedMachines asked);
// The next step where there are any.
std::string hint_of_unknown_nodes(const ClusterSpec& cluster);

// `error`, with the unknown nodes where there are any.
Error with_unknown_nodes(Context& context, ClusterSession& session, const ClusterSpec& cluster,
                         Error error);

}  // namespace paddle::cli
