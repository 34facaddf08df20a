#include "cli/cluster/check.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/gpus.h"
#include "cli/cluster/selection.h"
#include "cli/commands/shared_options.h"
#include "cli/job/engines.h"
#include "cli/watch/feed.h"
#include "cli/watch/pace.h"
#include "proto/agent.pb.h"

namespace paddle::cli {
namespace {

Status look_at_node(Context& context, Member& member, NodeFindings& found) {
  PADDLE_TRY(found.facts, member.client->facts());
  if (found.address.empty()) found.address = found.facts.address();
  const std::int64_t asked = context.unix_ms ? context.unix_ms() : 0;
  PADDLE_TRY(remote::NodeStatus status, member.client->status(""));
  found.processes = std::move(status.processes);
  const std::int64_t theirs = status.node.unix_ms;
  if (context.unix_ms) found.clock_offset_ms = {theirs - context.unix_ms(), theirs - asked};
  found.memory_available_bytes = status.node.memory_available_bytes;
  PADDLE_TRY(found.leftovers, member.client->leftovers());
  return {};
}

Status look_at_ports_of(const ClusterSpec& cluster, Member& member,
                        const Result<remote::PortRange>& block, NodeFindings& found) {
  if (member.error) return *member.error;
  if (!cluster.nodes[member.node].runs_pserver) return {};
  auto ports = block ? look_at_ports(cluster, member, *block) : Result<NodePorts>(block.error());
  if (ports) {
    found.ports = *std::move(ports);
  } else {
    found.ports_error = std::move(ports).error();
  }
  return {};
}

// The reachable nodes, each with a free port to listen on, or 0.
std::vector<LinkEnd> link_ends(const CheckedCluster& checked) {
  std::vector<LinkEnd> ends;
  for (std::size_t at = 0; at < checked.nodes.size(); ++at) {
    const NodeFindings& found = checked.findings[at];
    if (found.error) continue;
    const bool listens = found.ports && found.ports->first_is_free;
    ends.push_back({at, found.address, listens ? found.ports->first : std::uint16_t{0}});
  }
  return ends;
}

// Lines such as "job k5: trainer-1 on n-1 is stalled: no progress for 2m42s", for all jobs.
std::vector<std::string> find_stalls(ClusterSession& session,
                                     const std::vector<NodeFindings>& findings) {
  std::map<std::string, std::vector<ProcessOnNode>> jobs;
  for (std::size_t at = 0; at < findings.size(); ++at) {
    for (const auto& status : findings[at].processes) jobs[status.job].push_back({at, status});
  }
  std::vector<std::string> lines;
  for (const auto& [job, processes] : jobs) {
    for (const auto& line : describe_stalls(paces_of(processes), nodes_of(session, processes)))
      lines.push_back(fmt::format("job {}: {}", job, line));
  }
  return lines;
}

// Prints a note, not an error: a job with one GPU, or without dense = "collective", needs no NCCL.
void note_missing_nccl(Context& context, const CheckedCluster& checked) {
  std::size_t gpus = 0;
  std::vector<std::string> missing;
  for (std::size_t at = 0; at < checked.nodes.size(); ++at) {
    const ClusterNode& node = checked.cluster.nodes[checked.nodes[at]];
    const NodeFindings& found = checked.findings[at];
    if (found.error || found.facts.gpus().empty() || !node.runs_trainer) continue;
    gpus += node.gpus.empty() ? gpu_count(found.facts) : node.gpus.size();
    missing.push_back(nccl_missing(node, found.facts, {}));
  }
  if (!checked.has_gpu_engine || gpus < 2) return;
  for (const std::string& sentence : missing) {
    if (!sentence.empty()) context.console.note(sentence);
  }
}

void show(Context& context, const CheckedCluster& checked, const std::vector<Fault>& faults) {
  if (context.console.json()) return context.console.json_line(check_json(checked, faults));
  const ConsoleOptions& console = context.console.options();
  context.console.raw(check_text(checked, faults, console.columns, console.colour));
  if (checked.links.rounds_tried < checked.links.rounds) {
    context.console.result(
        fmt::format("links: each node was tested from {} of the {} other nodes, because the time "
                    "limit is {} s; --on checks fewer nodes",
                    checked.links.rounds_tried, checked.links.rounds,
                    std::chrono::duration_cast<std::chrono::seconds>(kLinksDeadline).count()));
  }
  for (const Fault& fault : faults) {
    context.console.result("! " + fault.error.message);
    context.console.result("  next: " + fault.error.hint);
  }
  for (const std::string& line : checked.stalls) context.console.result("! " + line);
}

Status run_check(Context& context, const NodeTarget& options) {
  PADDLE_TRY(const ClusterSpec cluster, choose_cluster(context.directory, options.cluster));
  PADDLE_TRY(const std::vector<std::size_t> nodes, select_nodes(cluster, options.on));
  context.console.note(
      fmt::format("cluster '{}': {}", cluster.name, counted(nodes.size(), "node")));
  ClusterSession session = ClusterSession::open(context, cluster, nodes);
  CheckedCluster checked{cluster, nodes, std::vector<NodeFindings>(nodes.size()), {}};
  checked.has_gpu_engine = static_cast<bool>(check_gpu_engine(context));
  std::vector<Member>& members = session.members();
  std::vector<std::string> addresses;
  for (const ClusterNode& node : cluster.nodes) addresses.push_back(node.address);
  for (std::size_t at = 0; at < nodes.size(); ++at)
    checked.findings[at].address = addresses[nodes[at]];
  (void)session.each([&](Member& member) {
    return look_at_node(context, member, checked.findings[session.index_of(member)]);
  });
  for (std::size_t at = 0; at < nodes.size(); ++at)
    addresses[nodes[at]] = checked.findings[at].address;
  const auto blocks = first_blocks(cluster, addresses);
  (void)session.each([&](Member& member) {
    return look_at_ports_of(cluster, member, blocks[member.node],
                            checked.findings[session.index_of(member)]);
  });
  for (std::size_t at = 0; at < nodes.size(); ++at) checked.findings[at].error = members[at].error;
  PADDLE_TRY(checked.links, check_links(context, session, link_ends(checked)));

  checked.stalls = find_stalls(session, checked.findings);
  const std::vector<Fault> faults = find_faults(checked);
  show(context, checked, faults);
  note_missing_nccl(context, checked);
  if (cluster.is_clear()) context.console.note(kClearTransport);
  Error error{Errc::kFailed, "", "follow the next step shown with each fault, then check again"};
  for (const Fault& fault : faults) error.code = std::max(error.code, fault.error.code);
  for (const Error& one : checked.links.errors) {
    error.code = std::max(error.code, one.code);
    error.message += one.message + "\n";
  }
  if (faults.empty() && checked.links.errors.empty() && !checked.stalls.empty()) {
    return Error{Errc::kFailed, "a process of a running job is stalled",
                 "check its node, or end the job: paddlectl stop --now --job <job>"};
  }
  if (faults.empty() && checked.links.errors.empty()) {
    context.console.note(nodes.size() == 1 ? "the node is OK"
                                           : fmt::format("all {} nodes OK", nodes.size()));
    return {};
  }
  std::vector<std::size_t> bad;
  for (const Fault& fault : faults) bad.push_back(fault.node);
  bad.erase(std::unique(bad.begin(), bad.end()), bad.end());
  error.message += fmt::format("{} on {} of {} nodes", counted(faults.size(), "fault"), bad.size(),
                               nodes.size());
  return error;
}

}  // namespace

Command check_command() {
  return {"check", "run preflight checks: machines, ports, leftovers, links between nodes",
          "  paddlectl check\n"
          "  paddlectl check --cluster lab.toml --on rack1\n"
          "  paddlectl check --json",
          [] { return invocation(node_options, run_check); }, "doctor"};
}

}  // namespace paddle::cli
