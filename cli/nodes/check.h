// Faults that `paddlectl check` finds in a cluster, and their table: a reason and a next step for
// each red cell. Pure functions of the findings.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/cluster/cluster_file.h"
#include "cli/console/console.h"
#include "cli/nodes/link_check.h"
#include "cli/nodes/ports.h"

namespace paddle::cli {

constexpr std::uint64_t kDiskFreeBytesMin = 1'000'000'000;
constexpr std::uint64_t kMemoryAvailableBytesMin = 256'000'000;
// A larger offset makes the times in logs and reports misleading.
constexpr std::int64_t kClockOffsetMsMax = 2'000;

struct NodeFindings {
  std::string address;         // on the data plane
  std::optional<Error> error;  // of a node that failed, of which nothing below is known
  remote::HostFacts facts;
  std::uint64_t memory_available_bytes = 0;
  // Bounds of the node's clock minus ours; nothing when they were not compared.
  std::optional<std::pair<std::int64_t, std::int64_t>> clock_offset_ms;
  std::optional<NodePorts> ports;  // nothing where no pserver may run
  std::optional<Error> ports_error;
  remote::Leftovers leftovers;
  std::vector<remote::ProcessStatus> processes;  // of all jobs
};

struct CheckedCluster {
  const ClusterSpec& cluster;
  std::vector<std::size_t> nodes;        // the checked ones, indices in ClusterSpec::nodes
  std::vector<NodeFindings> findings;    // of each of `nodes`
  LinkCheck links;                       // its ends are positions in `nodes`
  std::vector<std::string> stalls = {};  // lines about processes that hang
  bool has_gpu_engine = false;           // this paddlectl has a paddle-gpu for nodes
};

struct Fault {
  std::size_t node = 0;  // position in CheckedCluster::nodes
  std::string column;    // key of the cell's column
  Error error;           // message: the reason; hint: the next step
};

// By node, in the order of the columns.
std::vector<Fault> find_faults(const CheckedCluster& checked);
// A cell with a fault begins with "! ".
Table check_table(const CheckedCluster& checked, const std::vector<Fault>& faults);
// {"nodes": [...], "links": [...], "link_rounds": ..., "link_rounds_tried": ..., "stalls": [...],
// "faults": [...]}
Json check_json(const CheckedCluster& checked, const std::vector<Fault>& faults);

}  // namespace paddle::cli
