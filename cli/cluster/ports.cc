#include "cli/cluster/ports.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <tuple>

#include <fmt/format.h>

namespace paddle::cli {
namespace {

constexpr std::size_t kPortsEnd = 65536;

// The pid in "pid 123 (nginx)", or 0.
int pid_of(const std::string& owner) {
  int pid = 0;
  if (owner.starts_with("pid "))
    std::from_chars(owner.data() + 4, owner.data() + owner.size(), pid);
  return pid;
}

}  // namespace

Result<remote::PortRange> PortAllocator::take(const ClusterNode& node, const std::string& address,
                                              std::uint16_t count, const std::string& process) {
  std::size_t& next = next_[address];
  const std::size_t first = std::max(next, node.port + skipped_);
  if (first + count > kPortsEnd) {
    return Error{Errc::kUsage,
                 fmt::format("the ports of {} on {} end above 65535", process, node.spec.name),
                 "lower `port` in the cluster file"};
  }
  next = first + count;
  return remote::PortRange{address, static_cast<std::uint16_t>(first), count};
}

std::vector<remote::PortRange> JobPorts::all() const {
  std::vector<remote::PortRange> ranges = pservers;
  ranges.insert(ranges.end(), trainers.begin(), trainers.end());
  if (master) ranges.push_back(*master);
  return ranges;
}

std::size_t JobPorts::span() const {
  std::map<std::string, std::size_t> on_address;
  std::size_t most = 0;
  for (const remote::PortRange& range : all())
    most = std::max(most, on_address[range.address] += range.count);
  return most;
}

Result<JobPorts> assign_ports(const ClusterSpec& cluster, const std::vector<std::size_t>& pservers,
                              const std::vector<std::size_t>& listeners,
                              const std::vector<std::string>& addresses, std::size_t skipped) {
  PortAllocator allocator(skipped);
  const auto take = [&](std::size_t node, std::uint16_t count, std::string_view role,
                        std::vector<remote::PortRange>& ranges) -> Status {
    PADDLE_TRY(ranges.emplace_back(), allocator.take(cluster.nodes[node], addresses[node], count,
                                                     fmt::format("{}-{}", role, ranges.size())));
    return {};
  };
  JobPorts ports;
  for (const std::size_t node : pservers)
    PADDLE_TRY_STATUS(take(node, cluster.block(), "pserver", ports.pservers));
  for (const std::size_t node : listeners)
    PADDLE_TRY_STATUS(take(node, 1, "trainer", ports.trainers));
  if (listeners.empty()) return ports;
  const std::size_t first = listeners.front();
  PADDLE_TRY(ports.master, allocator.take(cluster.nodes[first], addresses[first], 1, "trainer-0"));
  return ports;
}

std::vector<remote::PortRange> joined(std::vector<remote::PortRange> ranges, std::size_t size_max) {
  std::ranges::sort(ranges, [](const remote::PortRange& a, const remote::PortRange& b) {
    return std::tie(a.address, a.first) < std::tie(b.address, b.first);
  });
  std::vector<remote::PortRange> joined;
  for (const remote::PortRange& range : ranges) {
    remote::PortRange* const last = joined.empty() ? nullptr : &joined.back();
    const bool follows = last != nullptr && last->address == range.address &&
                         last->first + last->count == range.first;
    if (follows && std::size_t{last->count} + range.count <= size_max) {
      last->count = static_cast<std::uint16_t>(last->count + range.count);
    } else {
      joined.push_back(range);
    }
  }
  return joined;
}

std::vector<Result<remote::PortRange>> first_blocks(const ClusterSpec& cluster,
                                                    const std::vector<std::string>& addresses) {
  PortAllocator allocator;
  std::vector<Result<remote::PortRange>> blocks;
  for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
    const ClusterNode& node = cluster.nodes[i];
    if (node.runs_pserver && !addresses[i].empty()) {
      blocks.push_back(allocator.take(node, addresses[i], cluster.block(), "a pserver"));
    } else {
      blocks.emplace_back(remote::PortRange{addresses[i], node.port, cluster.block()});
    }
  }
  return blocks;
}

std::string endpoint_text(const std::string& address, std::uint16_t port) {
  return address.find(':') == std::string::npos ? fmt::format("{}:{}", address, port)
                                                : fmt::format("[{}]:{}", address, port);
}

std::string job_on_port(const remote::PortStatus& port,
                        std::span<const remote::ProcessStatus> processes) {
  const int pid = pid_of(port.owner);
  for (const remote::ProcessStatus& process : processes) {
    if (process.state == remote::ProcessState::kRunning && process.pid == pid) return process.job;
  }
  return "";
}

std::string next_free_ports(const ClusterSpec& cluster, Member& member, const std::string& address,
                            std::uint16_t first) {
  constexpr std::uint16_t kLookedAt = 256;
  std::string end_it = "end that program, or set another `port` for this node in the cluster file";
  const std::uint16_t block = cluster.block();
  const auto count = static_cast<std::uint16_t>(std::min<int>(kLookedAt, 65536 - first));
  const auto ports = member.client->check_ports(address, first, count);
  if (!ports) return end_it;
  std::uint16_t free = 0;  // length of the current run of free ports
  for (const remote::PortStatus& port : *ports) {
    free = port.free ? static_cast<std::uint16_t>(free + 1) : std::uint16_t{0};
    if (free < block) continue;
    const int begin = port.port - block + 1;
    return fmt::format("{}: with `port = {}` the node uses {}-{}, the next free ports", end_it,
                       cluster.nodes[member.node].port + begin - first, begin, port.port);
  }
  return end_it;
}

std::string job_on_ports(std::span<const remote::PortRange> ports,
                         std::span<const remote::ProcessStatus> processes) {
  const auto meets_one = [&](const remote::PortRange& theirs) {
    return std::ranges::any_of(ports, [&](const remote::PortRange& ours) {
      return ours.address == theirs.address && ours.first < theirs.first + theirs.count &&
             theirs.first < ours.first + ours.count;
    });
  };
  for (const remote::ProcessStatus& process : processes) {
    if (process.state != remote::ProcessState::kRunning) continue;
    if (std::ranges::any_of(process.ports, meets_one)) return process.job;
  }
  return "";
}

std::string NodePorts::text() const {
  const char* const state = taken ? "taken" : job_holds_some ? "in use by a job" : "free";
  return fmt::format("{}-{} {}", first, last, state);
}

Result<NodePorts> look_at_ports(const ClusterSpec& cluster, Member& member,
                                const remote::PortRange& block) {
  NodePorts found;
  found.first = block.first;
  found.last = static_cast<std::uint16_t>(block.first + block.count - 1);
  PADDLE_TRY(const auto ports, member.client->check_ports(block.address, block.first, block.count));
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
                            block.address, port.owner.empty() ? "" : " by " + port.owner),
                next_free_ports(cluster, member, block.address, found.first)};
    }
  }
  return found;
}

}  // namespace paddle::cli
