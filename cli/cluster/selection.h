// Chooses the cluster of a command (from --cluster, or the current one) and the nodes of --on.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/cluster/cluster_file.h"

namespace paddle::cli {

// A place that names the current cluster, so that commands need no --cluster.
struct CurrentCluster {
  std::string file;                   // cluster file
  std::string source;                 // a path that ends in "current", or "PADDLECTL_CLUSTER"
  std::vector<std::string> left_out;  // nodes that `up --any` left out
};
// The first of: .paddlectl/current in the directory; the same file in its parents, up to $HOME or
// the end of the file system, if you or root own it; $PADDLECTL_CLUSTER; the user's default.
// kUsage: there is none.
Result<CurrentCluster> find_current(const std::string& directory);
// Every place that names a cluster, in the order in which find_current checks them; the first is
// the current one. Places that cannot be read are left out.
std::vector<CurrentCluster> known_places(const std::string& directory);
// The nodes that `up --any` left out of this cluster, if it is the current one.
std::vector<std::string> left_out_of(const std::string& directory, const ClusterSpec& cluster);
// $XDG_CONFIG_HOME/paddlectl/current, or the same below ~/.config; "" without a home.
std::string default_cluster_place();
// .paddlectl/current in the directory.
std::string cluster_place(const std::string& directory);
// kResource: the place cannot be written. Checked before work that such an error would waste.
Status check_place(const std::string& place);
// left_out: names of nodes that `up --any` left out.
Status remember_cluster(const std::string& place, const std::string& file,
                        const std::vector<std::string>& left_out = {});
// Removes `file` from every place that find_current checks; leaves no empty folder behind.
void forget_cluster(const std::string& directory, const std::string& file);
// The cluster file `asked`, relative to the directory, or else the current one; read and checked.
// For a cluster with a provider it has no nodes yet.
Result<ClusterSpec> choose_cluster_file(const std::string& directory, const std::string& asked);
// The same with the nodes that the provider lists; see add_nodes().
Result<ClusterSpec> choose_cluster(const std::string& directory, const std::string& asked);

// Parses a comma-separated list of nodes ("node1"), ranges of nodes ("node[01-04].lab"), groups
// ("gpu", or "@gpu" as in clush), "all", and, if no node has that name, hosts and addresses. A term
// that begins with '!' excludes; if all terms do, they exclude from all nodes. "" is all nodes.
// Returns indices into ClusterSpec::nodes, ascending, each once. kUsage: a name that is neither
// node nor group (with the nearest one), or nothing left.
Result<std::vector<std::size_t>> select_nodes(const ClusterSpec& cluster, std::string_view text);
// The text for --on that names exactly these nodes of the cluster.
std::string on_text(const ClusterSpec& cluster, const std::vector<std::size_t>& nodes);
// The cluster with roles on these nodes only, for a job that uses no other nodes. Nodes keep their
// indices.
ClusterSpec with_roles_on(ClusterSpec cluster, const std::vector<std::size_t>& nodes);

}  // namespace paddle::cli
