// Finds nodes that were renamed in the cluster file or taken out of it: their folders are still on
// the machines of its nodes.
#pragma once

#include <string>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"

namespace paddle::cli {

// The machines that are asked; each takes another login. kFew: this machine, and the machines of
// nodes that have no folder of the cluster; for commands that usually find nothing.
enum class AskedMachines { kAll, kFew };

// "folders of n-2, n-3, which are not in c.toml, are on the machines of this cluster", or "".
std::string describe_unknown_nodes(Context& context, ClusterSession& session,
                                   const ClusterSpec& cluster, AskedMachines asked);
// The hint if there are unknown nodes.
std::string hint_of_unknown_nodes(const ClusterSpec& cluster);

// `error`, with the unknown nodes in its message and hint if there are any.
Error with_unknown_nodes(Context& context, ClusterSession& session, const ClusterSpec& cluster,
                         Error error);

}  // namespace paddle::cli
