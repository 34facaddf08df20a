// What `put` and `get` share: files go through a folder of ours on the node, which does not stay.
#pragma once

#include <functional>
#include <string>

#include "cli/cluster/cluster_session.h"

namespace paddle::cli {

struct CopyReport {
  std::uint64_t files = 0, bytes = 0;
  std::uint64_t bytes_moved = 0;  // over the connection
  std::uint64_t gone = 0;         // removed there before they could be copied
};

// Below the nodes' root, another for each command.
std::string staging_folder(const Context& context);

// Reaches each node, works and leaves it, and prints one table; an error names every failed node.
Status copy_on_each(Context& context, ClusterSession& session,
                    const std::function<Status(Member&, CopyReport&)>& work);

}  // namespace paddle::cli
