
#include <fmt/format.h>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/selection.h"
#include "cli/nodes/ports.h"
#include "cli/options/shared_options.h"
#include "cli/workspace/engine_program.h"
#include "remote/push/source.h"

namespace paddle::cli {
namespace {

OptionList up_options(NodeTarget& options) {
  return {{"cluster", "the cluster file, like clusters/local.toml", &options.cluster, "FILE"},
          on_option(options.on)};
}

struct NodeReport {
  remote::HostFacts facts;
  std::string address;
  std::string ports = "-";
  bool changed = false;
};

Status prepare_node(const ClusterSpec& cluster, Member& member, const remote::PushItem& engine,
                    remote::PushSource& source, NodeReport& report) {
  PADDLE_TRY(report.facts, member.client->facts());
  const ClusterNode& node = cluster.nodes[member.node];
  report.address = node.address.empty() ? report.facts.address : node.address;
  PADDLE_TRY(const remote::PushStats stats, member.client->push({engine}, source, nullptr));
  report.changed = stats.files_sent > 0;
  return {};
}

Status check_ports(const ClusterSpec& cluster, Member& member, std::size_t ordinal,
                   NodeReport& report) {
  if (!cluster.nodes[member.node].runs_pserver) return {};
  PADDLE_TRY(NodePorts ports, look_at_ports(cluster, member, report.address, ordinal));
  if (ports.taken) return *std::move(ports.taken);
  report.ports = ports.text();
  return {};
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
  row.insert(row.end(),
             {number_cell(facts.cores), bytes_cell(facts.memory_bytes),
              Cell{describe_gpus(facts.gpus), Json::list({facts.gpus.begin(), facts.gpus.end()})},
              bytes_cell(facts.disk_free_bytes), text_cell(report.ports),
              text_cell(report.changed ? "changed" : "unchanged")});
  return row;
}

Status run_up(Context& context, const NodeTarget& options) {
  PADDLE_TRY(const ClusterSpec cluster, choose_cluster(context.directory, options.cluster));
  PADDLE_TRY(const remote::PushItem engine, engine_item(context.engine));
  PADDLE_TRY(const std::vector<std::size_t> nodes, select_nodes(cluster, options.on));
  context.console.note(
      fmt::format("cluster '{}': {}", cluster.name, counted(nodes.size(), "node")));
  ClusterSession session = ClusterSession::open(context, cluster, nodes);

  std::vector<NodeReport> reports(cluster.nodes.size());
  remote::PushSource source(context.hash_cache, nodes.size());
  (void)session.each([&](Member& member) {
    return prepare_node(cluster, member, engine, source, reports[member.node]);
  });
  // Ports depend on every node's address, so they are checked in a second round.
  std::vector<std::string> addresses;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const std::string& said = cluster.nodes[i].address;
    addresses.push_back(said.empty() ? reports[i].address : said);
  }
  const std::vector<std::size_t> ordinals = pserver_ordinals(cluster, addresses);
  (void)session.each([&](Member& member) -> Status {
    if (member.error) return *member.error;
    return check_ports(cluster, member, ordinals[member.node], reports[member.node]);
  });
  // The hash cache only saves time, so a failure to keep it is a note.
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

}  // namespace

Command up_command() {
  return {"up", "reach, check and prepare every node of a cluster",
          "  paddlectl up clusters/local.toml\n"
          "  paddlectl up lab.toml --json",
          [] { return invocation(up_options, run_up); }};
}

}  // namespace paddle::cli
