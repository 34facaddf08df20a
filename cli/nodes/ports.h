// Port blocks of pservers on their nodes, and the owners of ports that are taken.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/cluster/cluster_file.h"
#include "cli/cluster/cluster_session.h"

namespace paddle::cli {

// First port of block number `ordinal` on the node. kUsage when the block ends above 65535.
Result<std::uint16_t> block_port(const ClusterSpec& cluster, const ClusterNode& node,
                                 std::size_t ordinal);

// For each node the number of its port block: nodes that share a data plane address (local nodes,
// or one machine named twice) use successive blocks. `addresses` has "" where it is not known.
std::vector<std::size_t> pserver_ordinals(const ClusterSpec& cluster,
                                          const std::vector<std::string>& addresses);

// The job whose running process holds the port; "" when a program outside our jobs does.
std::string job_on_port(const remote::PortStatus& port,
                        std::span<const remote::ProcessStatus> processes);

// The port block that the node's first pserver would use.
struct NodePorts {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
  bool first_is_free = false;
  bool job_holds_some = false;  // a running job of ours, which is no fault
  std::optional<Error> taken;   // kResource: a program outside our jobs holds a port

  std::string text() const;  // "7164-7167 free"
};
// `address`: the node's own on the data plane.
Result<NodePorts> look_at_ports(const ClusterSpec& cluster, Member& member,
                                const std::string& address, std::size_t ordinal);

// "2x NVIDIA H100, 1x NVIDIA T4", "none".
std::string describe_gpus(const std::vector<std::string>& gpus);

}  // namespace paddle::cli
