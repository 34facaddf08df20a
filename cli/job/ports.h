// The ports that a node's pserver would take, and who holds them now.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/cluster/cluster_file.h"
#include "cli/cluster/cluster_session.h"

namespace paddle::cli {

// Of each node, the how-manieth with pservers on its address: nodes that share one (local ones, or
// one machine named twice) hold successive port blocks. `addresses`: of each node on the data
// plane, as far as they are known.
std::vector<std::size_t> pserver_ordinals(const ClusterSpec& cluster,
                                          const std::vector<std::string>& addresses);

struct NodePorts {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
  bool first_is_free = false;
  bool job_holds_some = false;  // one of ours: as it should be
  std::optional<Error> taken;   // kResource: anybody else holds one, and stops the node

  std::string text() const;  // "7164-7167 free"
};
// At `address`, the node's on the data plane.
Result<NodePorts> look_at_ports(const ClusterSpec& cluster, Member& member,
                                const std::string& address, std::size_t ordinal);

// "2x NVIDIA H100, 1x NVIDIA T4", "none".
std::string describe_gpus(const std::vector<std::string>& gpus);

}  // namespace paddle::cli
