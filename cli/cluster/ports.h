// Ports of a job's processes on their nodes, and the owners of ports that are taken.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/cluster/cluster_file.h"
#include "cli/cluster/cluster_session.h"

namespace paddle::cli {

// Gives out ports on data plane addresses, from a node's `port` on. Continues after the ports
// already given out for the same address, because local nodes, or one machine named twice, share an
// address.
class PortAllocator {
 public:
  // `skipped`: the number of ports, from each node's `port` on, that are left to other jobs.
  explicit PortAllocator(std::size_t skipped = 0) : skipped_(skipped) {}

  // kUsage: the ports end above 65535. `process`: for the message.
  Result<remote::PortRange> take(const ClusterNode& node, const std::string& address,
                                 std::uint16_t count, const std::string& process);

 private:
  std::size_t skipped_;
  std::map<std::string, std::size_t> next_;  // by address
};

struct JobPorts {
  std::vector<remote::PortRange> pservers;  // a block for each
  std::vector<remote::PortRange> trainers;  // one for each; none if trainers do not listen
  // The rendezvous port of all trainers, if trainers listen: after the ports of trainer 0.
  std::optional<remote::PortRange> master;

  std::vector<remote::PortRange> all() const;
  // The number of ports on the address that has most.
  std::size_t span() const;
};
// pservers, listeners: the nodes of the job's pservers, and of its trainers if they listen.
Result<JobPorts> assign_ports(const ClusterSpec& cluster, const std::vector<std::size_t>& pservers,
                              const std::vector<std::size_t>& listeners,
                              const std::vector<std::string>& addresses, std::size_t skipped = 0);

// The same ports in as few ranges as possible, of at most `size_max` ports each.
std::vector<remote::PortRange> joined(std::vector<remote::PortRange> ranges, std::size_t size_max);

// The block of each node's first pserver, if every node with the role has one. `addresses`: "" if
// not known.
std::vector<Result<remote::PortRange>> first_blocks(const ClusterSpec& cluster,
                                                    const std::vector<std::string>& addresses);

// "10.0.0.1:7164", "[::1]:7164".
std::string endpoint_text(const std::string& address, std::uint16_t port);

// The job whose running process holds the port; "" if a program outside paddlectl's jobs does.
std::string job_on_port(const remote::PortStatus& port,
                        std::span<const remote::ProcessStatus> processes);
// The job whose running process has one of the ports, open or not; "" if none has.
std::string job_on_ports(std::span<const remote::PortRange> ports,
                         std::span<const remote::ProcessStatus> processes);

// The hint if a port of the block that begins at `first` is taken. It names the value for `port`
// that gives the node the next block of free ports, if there is one.
std::string next_free_ports(const ClusterSpec& cluster, Member& member, const std::string& address,
                            std::uint16_t first);

// The port block that the node's first pserver would use.
struct NodePorts {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
  bool first_is_free = false;
  bool job_holds_some = false;  // a running job has it, which is no fault
  std::optional<Error> taken;   // kResource: a program outside paddlectl's jobs holds a port

  std::string text() const;  // "7164-7167 free"
};
Result<NodePorts> look_at_ports(const ClusterSpec& cluster, Member& member,
                                const remote::PortRange& block);

}  // namespace paddle::cli
