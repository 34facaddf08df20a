// The nodes that --on selects.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/cluster/cluster_file.h"

namespace paddle::cli {

// A comma-separated list of nodes ("node1"), ranges of them ("node[01-04].lab"), groups ("gpu", or
// "@gpu" as clush has it) and "all". A term with '!' in front excludes; when all terms do, they
// exclude from all nodes. "" is all nodes. Indices into ClusterSpec::nodes, ascending, each once.
// kUsage: a name that is neither node nor group (with the nearest one), or nothing left.
Result<std::vector<std::size_t>> select_nodes(const ClusterSpec& cluster, std::string_view text);

}  // namespace paddle::cli
