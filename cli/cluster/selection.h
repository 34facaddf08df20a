// The cluster of a command (that of --cluster or the current one), the nodes of --on, and the
// ranges in their names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/cluster/cluster_file.h"

namespace paddle::cli {

// The current cluster is the file that `up` used in the directory: it stands in .paddlectl/current,
// so that later commands need no --cluster.
Status remember_cluster(const std::string& directory, const std::string& file);
// Forgets it when it is `file`; leaves no empty folder behind.
void forget_cluster(const std::string& directory, const std::string& file);
// `asked` relative to the directory, or else the current cluster; read and checked.
Result<ClusterSpec> choose_cluster(const std::string& directory, const std::string& asked);

constexpr std::size_t kRangeNamesMax = 4096;

// "node[01-16].lab" -> node01.lab ... node16.lab: one numeric range per pattern, zero padding kept.
// A text without '[' is itself. kUsage: more than one range, bounds that are not numbers, last <
// first, too many names.
Result<std::vector<std::string>> expand_range(const std::string& pattern);

// A comma-separated list of nodes ("node1"), ranges of them ("node[01-04].lab"), groups ("gpu", or
// "@gpu" as clush has it) and "all". A term with '!' in front excludes; when all terms do, they
// exclude from all nodes. "" is all nodes. Indices into ClusterSpec::nodes, ascending, each once.
// kUsage: a name that is neither node nor group (with the nearest one), or nothing left.
Result<std::vector<std::size_t>> select_nodes(const ClusterSpec& cluster, std::string_view text);

}  // namespace paddle::cli
