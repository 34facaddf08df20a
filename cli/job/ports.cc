#include "cli/job/ports.h"

#include <map>

#include <fmt/format.h>

#include "cli/job/plan.h"
#include "cli/job/port_owner.h"

namespace paddle::cli {

std::vector<std::size_t> pserver_ordinals(const ClusterSpec& cluster,
                                          const std::vector<std::string>& addresses) {
  std::map<std::string, std::size_t> on_address;
  std::vector<std::size_t> ordinals(cluster.nodes.size());
  for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
    if (cluster.nodes[i].runs_pserver && !addresses[i].empty())
      ordinals[i] = on_address[addresses[i]]++;
  }
  return ordinals;
}

std::string NodePorts::text() const {
  const char* const state = taken ? "taken" : job_holds_some ? "in use by a job" : "free";
  return fmt::format("{}-{} {}", first, last, state);
}

Result<NodePorts> look_at_ports(const ClusterSpec& cluster, Member& member,
                                const std::string& address, std::size_t ordinal) {
  NodePorts found;
  PADDLE_TRY(found.first, block_port(cluster, cluster.nodes[member.node], ordinal));
  found.last = static_cast<std::uint16_t>(found.first + cluster.block() - 1);
  PADDLE_TRY(const auto ports, member.client->check_ports(address, found.first, cluster.block()));
  PADDLE_TRY(const auto ours, member.client->processes(""));
  found.first_is_free = !ports.empty() && ports.front().free;
  for (const remote::PortStatus& port : ports) {
    if (port.free) continue;
    if (!job_on_port(port, ours).empty()) {
      found.job_holds_some = true;
    } else if (!found.taken) {
      found.taken =
          Error{Errc::kResource,
                fmt::format("node {}: port {} on {} is taken{}", member.spec.name, port.port,
                            address, port.owner.empty() ? "" : " by " + port.owner),
                "end that program, or set another `port` for this node in the cluster file"};
    }
  }
  return found;
}

std::string describe_gpus(const std::vector<std::string>& gpus) {
  std::map<std::string, int> counts;
  for (const std::string& gpu : gpus) ++counts[gpu];
  std::string text;
  for (const auto& [name, count] : counts)
    text += fmt::format("{}{}x {}", text.empty() ? "" : ", ", count, name);
  return text.empty() ? "none" : text;
}

}  // namespace paddle::cli
