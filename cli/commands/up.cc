#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "cli/cluster_session.h"
#include "cli/commands/commands.h"
#include "cli/current_cluster.h"
#include "cli/engine_binary.h"
#include "cli/job_plan.h"
#include "cli/json.h"
#include "cli/node_selection.h"
#include "cli/port_owner.h"
#include "remote/push_source.h"

namespace paddle::cli {
namespace {

struct NodeReport {
  remote::HostFacts facts;
  std::string address;
  std::string ports = "-";
  bool changed = false;
};

// Ports held by a job of ours are as they should be; anybody else's stop the node from being
// usable.
Status check_node_ports(const ClusterSpec& cluster, Member& member, std::size_t ordinal,
                        NodeReport& report) {
  const ClusterNode& node = cluster.nodes[member.node];
  PADDLE_TRY(const std::uint16_t first, block_port(cluster, node, ordinal));
  PADDLE_TRY(const auto ports, member.client->check_ports(report.address, first, cluster.block()));
  PADDLE_TRY(const auto ours, member.client->processes(""));
  bool busy = false;
  for (const remote::PortStatus& port : ports) {
    if (port.free) continue;
    if (job_on_port(port, ours).empty()) {
      return Error{Errc::kResource,
                   fmt::format("node {}: port {} on {} is taken{}", member.spec.name, port.port,
                               report.address, port.owner.empty() ? "" : " by " + port.owner),
                   "end that program, or set another `port` for this node in the cluster file"};
    }
    busy = true;
  }
  report.ports = fmt::format("{}-{} {}", first, first + cluster.block() - 1,
                             busy ? "in use by a job" : "free");
  return {};
}

Status prepare_node(const ClusterSpec& cluster, Member& member, const remote::PushItem& engine,
                    remote::PushSource& source, std::size_t ordinal, NodeReport& report) {
  PADDLE_TRY(report.facts, member.client->facts());
  const ClusterNode& node = cluster.nodes[member.node];
  report.address = node.address.empty() ? report.facts.address : node.address;
  PADDLE_TRY(const remote::PushStats stats, member.client->push({engine}, source, nullptr));
  report.changed = stats.files_sent > 0;
  return node.runs_pserver ? check_node_ports(cluster, member, ordinal, report) : Status{};
}

// "2x NVIDIA H100, 1x NVIDIA T4", "none".
std::string describe_gpus(const std::vector<std::string>& gpus) {
  std::map<std::string, int> counts;
  for (const std::string& gpu : gpus) ++counts[gpu];
  std::string text;
  for (const auto& [name, count] : counts)
    text += fmt::format("{}{}x {}", text.empty() ? "" : ", ", count, name);
  return text.empty() ? "none" : text;
}

Table report_table() {
  return {{{"node", "node"},
           {"address", "address"},
           {"os", "os"},
           {"cores", "cores"},
           {"memory", "memory_bytes"},
           {"gpus", "gpus"},
           {"disk free", "disk_free_bytes"},
           {"ports", "ports"},
           {"state", "state"}},
          {}};
}

Cell bytes_cell(std::uint64_t bytes) {
  return {human_bytes(bytes), fmt::format("{}", bytes)};
}

std::vector<Cell> row_of(const Member& member, const NodeReport& report) {
  const remote::HostFacts& facts = report.facts;
  std::vector<Cell> row = {text_cell(member.spec.name),
                           text_cell(report.address.empty() ? member.spec.host : report.address),
                           text_cell(facts.os)};
  if (member.error) {
    row.resize(report_table().columns.size() - 1, empty_cell());
    row.push_back(text_cell("FAILED"));
    return row;
  }
  std::vector<std::string> gpus;
  for (const std::string& gpu : facts.gpus) gpus.push_back(json_string(gpu));
  row.insert(row.end(),
             {number_cell(facts.cores), bytes_cell(facts.memory_bytes),
              Cell{describe_gpus(facts.gpus), json_array(gpus)}, bytes_cell(facts.disk_free_bytes),
              text_cell(report.ports), text_cell(report.changed ? "changed" : "unchanged")});
  return row;
}

}  // namespace

Status run_up(Context& context, const CommandOptions& options) {
  PADDLE_TRY(const ClusterSpec cluster, choose_cluster(context.directory, options.cluster));
  PADDLE_TRY(const remote::PushItem engine, engine_item(context.engine));
  PADDLE_TRY(const std::vector<std::size_t> nodes, select_nodes(cluster, options.on));
  context.console.note(
      fmt::format("cluster '{}': {}", cluster.name, counted(nodes.size(), "node")));
  ClusterSession session = ClusterSession::open(context, cluster, nodes);

  // Nodes that share an address (local ones) hold successive port blocks.
  std::map<std::string, std::size_t> on_address;
  std::vector<std::size_t> ordinals(cluster.nodes.size());
  for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
    const ClusterNode& node = cluster.nodes[i];
    if (node.runs_pserver && !node.address.empty()) ordinals[i] = on_address[node.address]++;
  }
  std::vector<NodeReport> reports(cluster.nodes.size());
  remote::PushSource source(context.hash_cache);
  (void)session.each([&](Member& member) {
    return prepare_node(cluster, member, engine, source, ordinals[member.node],
                        reports[member.node]);
  });
  // A cache: without it the next run reads the files again.
  if (const Status kept = source.save(); !kept) context.console.note(kept.error().message);

  Table table = report_table();
  std::size_t failed = 0;
  for (const Member& member : session.members()) {
    table.rows.push_back(row_of(member, reports[member.node]));
    failed += member.error ? 1 : 0;
  }
  context.console.table(table);
  if (failed > 0) {
    Error error = session.all_well().error();
    error.message = fmt::format("{} of {} nodes are not ready; no job can use this cluster yet\n",
                                failed, nodes.size()) +
                    error.message;
    return error;
  }
  PADDLE_TRY_STATUS(remember_cluster(context.directory, cluster.file));
  context.console.note(nodes.size() == cluster.nodes.size()
                           ? fmt::format("{} ready; next: paddlectl train <workspace>",
                                         counted(nodes.size(), "node"))
                           : fmt::format("{} of {} ready; a job needs them all: paddlectl up",
                                         nodes.size(), counted(cluster.nodes.size(), "node")));
  return {};
}

}  // namespace paddle::cli
