// Faults that `paddlectl check` finds in a cluster, and their table. Each red cell has a reason and
// a next step. These functions depend on the findings only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/cluster/cluster_file.h"
#include "cli/cluster/link_check.h"
#include "cli/cluster/ports.h"
#include "cli/console/console.h"
#include "proto/agent.pb.h"

namespace paddle::cli {

constexpr std::uint64_t kDiskFreeBytesMin = 1'000'000'000;
constexpr std::uint64_t kMemoryAvailableBytesMin = 256'000'000;
// A larger offset makes the times in logs and reports misleading.
constexpr std::int64_t kClockOffsetMsMax = 2'000;

struct NodeFindings {
  std::string address;         // on the data plane
  std::optional<Error> error;  // the node failed; nothing below is known
  wire::agent::Facts facts;
  std::uint64_t memory_available_bytes = 0;
  // Bounds of the node's clock minus this machine's; nothing if they were not compared.
  std::optional<std::pair<std::int64_t, std::int64_t>> clock_offset_ms;
  std::optional<NodePorts> ports;  // nothing if no pserver may run there
  std::optional<Error> ports_error;
  wire::agent::LeftoversReply leftovers;
  std::vector<remote::ProcessStatus> processes;  // processes of all jobs
};

struct CheckedCluster {
  const ClusterSpec& cluster;
  std::vector<std::size_t> nodes;        // the checked ones, indices in ClusterSpec::nodes
  std::vector<NodeFindings> findings;    // by position in `nodes`
  LinkCheck links;                       // its ends are positions in `nodes`
  std::vector<std::string> stalls = {};  // lines about processes that hang
  bool has_gpu_engine = false;           // this paddlectl has a paddle-gpu for the nodes
};

struct Fault {
  std::size_t node = 0;  // position in CheckedCluster::nodes
  std::string column;    // key of the cell's column
  Error error;           // message: the reason; hint: the next step
};

// The faults by node, in the order of the columns.
std::vector<Fault> find_faults(const CheckedCluster& checked);
// The table; a cell with a fault begins with "! ".
Table check_table(const CheckedCluster& checked, const std::vector<Fault>& faults);
// The table as text for a terminal of so many columns (0: no terminal), and a line with the values
// that all nodes have in common. At most 120 columns wide; columns with a fault are always there.
std::string check_text(const CheckedCluster& checked, const std::vector<Fault>& faults,
                       std::size_t columns, bool colour);
// {"nodes": [...], "links": [...], "link_rounds": ..., "link_rounds_tried": ..., "stalls": [...],
// "faults": [...]}
Json check_json(const CheckedCluster& checked, const std::vector<Fault>& faults);

}  // namespace paddle::cli
