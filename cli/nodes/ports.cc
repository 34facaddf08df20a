#include "cli/nodes/ports.h"

#include <charconv>
#include <map>

#include <fmt/format.h>

namespace paddle::cli {
namespace {

// The pid in "pid 123 (nginx)", or 0.
int pid_of(const std::string& owner) {
  int pid = 0;
  if (owner.starts_with("pid "))
    std::from_chars(owner.data() + 4, owner.data() + owner.size(), pid);
  return pid;
}

}  // namespace

Result<std::uint16_t> block_port(const ClusterSpec& cluster, const ClusterNode& node,
                                 std::size_t ordinal) {
  const std::size_t first = node.port + ordinal * cluster.block();
  if (first + cluster.block() - 1U > 65535) {
    return Error{
        Errc::kUsage,
        fmt::format("the ports of pserver {} on {} end above 65535", ordinal, node.spec.name),
        "lower `port` in the cluster file"};
  }
  return static_cast<std::uint16_t>(first);
}

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

std::string job_on_port(const remote::PortStatus& port,
                        std::span<const remote::ProcessStatus> processes) {
  const int pid = pid_of(port.owner);
  for (const remote::ProcessStatus& process : processes) {
    if (process.state == remote::ProcessState::kRunning && process.pid == pid) return process.job;
  }
  return "";
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
