// Copies between nodes and this machine for `put` and `get`, through a temporary folder on the
// node.
#pragma once

#include <functional>
#include <string>

#include "cli/cluster/cluster_session.h"

namespace paddle::cli {

struct CopyCounts {
  std::uint64_t files = 0, bytes = 0;
  std::uint64_t bytes_moved = 0;  // over the connection
  std::uint64_t gone = 0;         // files removed on the node before they could be copied
};

// A folder below the nodes' root with a name of its own for each command.
std::string staging_folder(const Context& context);

// Connects to each node, calls work and disconnects, then prints one table. An error names every
// failed node.
Status copy_on_each(Context& context, ClusterSession& session,
                    const std::function<Status(Member&, CopyCounts&)>& work);

}  // namespace paddle::cli
