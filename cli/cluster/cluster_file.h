// cluster.toml: the servers of a cluster and how to reach them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/cluster/provider.h"
#include "remote/launcher/launcher.h"

namespace paddle::cli {

constexpr std::size_t kClusterNodesMax = 4096;
constexpr std::uint16_t kDefaultPort = 7164;
constexpr std::string_view kAllNodes = "all";  // every node is in this group

struct NodeDefaults;  // the keys of [ssh] and the top level that every node takes

struct ClusterNode {
  remote::NodeSpec spec;
  // For training traffic; "": the address that the node reports (a local node: 127.0.0.1).
  std::string address;
  bool runs_pserver = true;
  bool runs_trainer = true;
  // Share of the processes: a node with capacity 3 gets three times as many of each role as a node
  // with capacity 1.
  std::uint32_t capacity = 1;
  std::uint16_t port = kDefaultPort;  // first port of its first pserver
  std::vector<std::string> groups;    // names for --on; never a node's name
  // Variables of the node's processes; they override the agent's.
  std::map<std::string, std::string> environment;
  std::vector<std::string> gpus;  // nvidia-smi's numbers, or UUIDs, that its trainers see
};

// The price of a provider's nodes since they were made.
struct ClusterCost {
  double hourly = 0;  // of all nodes together
  double total = 0;   // so far
  std::string currency;
};

struct ClusterSpec {
  std::string name;
  std::string file;                        // absolute path of the file
  std::uint16_t ports_num = 1;             // dense ports of each pserver
  std::uint16_t ports_num_for_sparse = 1;  // sparse ports of each pserver
  std::string transport = "sealed";        // or "always", "clear": the engine's --transport
  bool nccl_clear = false;                 // the engine's --nccl_clear
  // At least one, with unique names; none yet for a cluster with a provider, see add_nodes().
  std::vector<ClusterNode> nodes;
  std::shared_ptr<const Provider> provider;  // null: the file names the nodes
  std::vector<ProvidedNode> provided;        // as the provider listed them
  std::shared_ptr<const NodeDefaults> defaults;

  bool is_clear() const { return transport == "clear"; }
  std::uint16_t block() const {
    return static_cast<std::uint16_t>(ports_num + ports_num_for_sparse);
  }
};

// The warning about a cluster whose is_clear() is true.
constexpr const char* kClearTransport =
    "training traffic is not sealed (transport = \"clear\"): other machines on the network between "
    "the nodes can read and change it";

// Errors are kUsage: "lab.toml:12:8: unknown key 'prot', did you mean 'port'?" with the line and a
// caret.
Result<ClusterSpec> read_cluster(const std::string& path);
Result<ClusterSpec> parse_cluster(std::string_view text, const std::string& file);
// Asks the provider for its nodes and adds those that run; nothing for a cluster without a
// provider. kUsage: there are none, or one has wrong keys.
Status add_nodes(ClusterSpec& cluster);
// Nodes that exist and do not run: "lab-2 is pending, lab-3 is stopping"; "" if all run.
std::string nodes_not_running(const ClusterSpec& cluster);
// Nothing if no node has a known price.
std::optional<ClusterCost> cost_of(const ClusterSpec& cluster, std::int64_t now_unix_s);

// "the nodes of cluster 'lab' cost 3.20 USD so far, 0.80 an hour"
std::string cost_text(const ClusterSpec& cluster, const ClusterCost& cost);

// The first port of the first node, or of every node that a provider makes.
std::uint16_t first_port_of(const ClusterSpec& cluster);
// Whether `name` can be the name of a cluster or a node. These names become folders on nodes, so
// few characters are allowed.
bool is_plain_name(std::string_view name);

}  // namespace paddle::cli
