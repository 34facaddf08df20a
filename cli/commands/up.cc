#include <fmt/format.h>

#include "base/text.h"
#include "cli/cluster/check.h"
#include "cli/cluster/cluster_session.h"
#include "cli/cluster/gpus.h"
#include "cli/cluster/ports.h"
#include "cli/cluster/selection.h"
#include "cli/cluster/unknown_nodes.h"
#include "cli/commands/commands.h"
#include "cli/commands/shared_options.h"
#include "cli/job/engine_program.h"
#include "cli/job/engines.h"
#include "cli/job/results.h"
#include "proto/agent.pb.h"
#include "remote/client/push_source.h"

namespace paddle::cli {
namespace {

struct UpOptions : NodeTarget {
  std::string file;  // the argument; the same as --cluster
  bool any = false;
  bool is_default = false;
  bool dry_run = false;
};

OptionList up_options(UpOptions& options) {
  return {
      cluster_option(options.cluster),
      {.name = "cluster",
       .help = "the cluster file, like clusters/local.toml; default: the current one",
       .target = &options.file,
       .value_name = "FILE"},
      on_option(options.on),
      {"--any", "use only the nodes that answer, and name those that are left out", &options.any},
      {"--default", "make it the cluster of every folder that has none, instead of this folder's",
       &options.is_default},
      {"--dry-run", "only print what [provider] of the cluster file would make", &options.dry_run}};
}

// Prints what would be made.
Status show_plan(Context& context, const ClusterSpec& cluster) {
  if (!cluster.provider) {
    context.console.note(
        fmt::format("{} names its servers, so nothing would be made; to look at "
                    "them without preparing them: paddlectl check",
                    shown_path(context, cluster.file)));
    return {};
  }
  PADDLE_TRY(const std::string plan, cluster.provider->plan(work_of(context)));
  context.console.end_progress();
  context.console.raw(Json::object({{"cluster", cluster.name}, {"plan", plan}}), plan);
  return {};
}

// Makes the nodes of a cluster with a provider, and adds them to `cluster`. The cluster is
// remembered first, so that `paddlectl teardown` finds what a broken `up` has made.
Status make_nodes(Context& context, const UpOptions& options, const std::string& place,
                  ClusterSpec& cluster) {
  if (!cluster.provider) return {};
  if (!place.empty()) PADDLE_TRY_STATUS(remember_cluster(place, cluster.file));
  context.console.note(fmt::format("cluster '{}': {}", cluster.name, cluster.provider->describe()));
  Status made = cluster.provider->create(work_of(context));
  context.console.end_progress();
  if (!made && !options.any) {
    Error error = std::move(made).error();
    error.hint +=
        fmt::format("{}paddlectl teardown removes what was made", error.hint.empty() ? "" : "; ");
    return error;
  }
  if (!made) context.console.note("left out: " + made.error().message);
  PADDLE_TRY_STATUS(add_nodes(cluster));
  if (const std::string others = nodes_not_running(cluster); !others.empty())
    context.console.note("warning: " + others);
  if (const auto cost = cost_of(cluster, context.unix_seconds()))
    context.console.note(cost_text(cluster, *cost));
  return {};
}

// The place in which to remember the cluster; "" if commands in this folder already find it, with
// these nodes left out.
std::string place_of(const Context& context, const UpOptions& options, const ClusterSpec& cluster,
                     const std::vector<std::string>& left_out) {
  if (options.is_default) return default_cluster_place();
  const auto current = find_current(context.directory);
  const bool is_current = current && current->file == cluster.file;
  if (is_current && current->left_out == left_out) return "";
  return is_current && check_place(current->source) ? current->source
                                                    : cluster_place(context.directory);
}

// Nodes that failed now, and nodes left out earlier that this `up` did not try.
std::vector<std::string> still_left_out(ClusterSession& session,
                                        std::vector<std::string> left_out) {
  for (const Member& member : session.members()) {
    std::erase(left_out, member.spec.name);
    if (member.error) left_out.push_back(member.spec.name);
  }
  return left_out;
}

// The current cluster of this folder, if it keeps the new default `file` from being used here.
std::optional<CurrentCluster> hides_default(const Context& context, const UpOptions& options,
                                            const std::string& file) {
  auto current = find_current(context.directory);
  if (!options.is_default || !current || current->file == file) return std::nullopt;
  if (current->source == default_cluster_place()) return std::nullopt;
  return *std::move(current);
}

struct NodeReport {
  wire::agent::Facts facts;
  std::string address;
  std::string ports = "-";
  bool changed = false;
};

Status prepare_node(const ClusterSpec& cluster, Member& member, const remote::PushItem& engine,
                    remote::PushSource& source, NodeReport& report) {
  PADDLE_TRY(report.facts, member.client->facts());
  const ClusterNode& node = cluster.nodes[member.node];
  report.address = node.address.empty() ? report.facts.address() : node.address;
  PADDLE_TRY(const remote::PushStats stats, member.client->push({engine}, source, nullptr));
  report.changed = stats.files_sent > 0;
  return {};
}

Status check_ports(const ClusterSpec& cluster, Member& member,
                   const Result<remote::PortRange>& block, NodeReport& report) {
  if (!cluster.nodes[member.node].runs_pserver) return {};
  if (!block) return block.error();
  PADDLE_TRY(NodePorts ports, look_at_ports(cluster, member, *block));
  if (ports.taken) return *std::move(ports.taken);
  report.ports = ports.text();
  return {};
}

Table report_table() {
  return {{{"node", "node"},
           {"address", "address", 3},
           {"os", "os", 5},
           {"cores", "cores", 2, true},
           {"memory", "memory_bytes", 2, true},
           {"gpus", "gpus", 4},
           {"disk free", "disk_free_bytes", 1, true},
           {"ports", "ports"},
           {"state", "state"}},
          {}};
}

std::vector<Cell> row_of(const Member& member, const NodeReport& report) {
  const wire::agent::Facts& facts = report.facts;
  std::vector<Cell> row = {text_cell(member.spec.name),
                           text_cell(report.address.empty() ? member.spec.host : report.address),
                           text_cell(facts.os())};
  if (member.error) {
    row.resize(report_table().columns.size() - 1, empty_cell());
    row.push_back(text_cell("FAILED"));
    return row;
  }
  row.insert(row.end(),
             {number_cell(facts.cores()), bytes_cell(facts.memory_bytes()), gpus_cell(facts),
              bytes_cell(facts.disk_free_bytes()), text_cell(report.ports),
              text_cell(report.changed ? "prepared" : "ready")});
  return row;
}

// Prints how many nodes are ready and, with `train`, how to train on them. An error if not all
// requested nodes are ready, or with --any if no node is.
Status check_ready(Context& context, const ClusterSpec& cluster, ClusterSession& session,
                   const UpOptions& options, const std::string& train) {
  const std::size_t all = cluster.nodes.size();
  std::vector<std::size_t> ready;
  for (const Member& member : session.members()) {
    if (!member.error) ready.push_back(member.node);
  }
  if (ready.size() == all) {
    context.console.note(
        fmt::format("{} ready; next: {} <workspace>", counted(all, "node"), train));
    return {};
  }
  std::string text = fmt::format("{} of {} ready", ready.size(), counted(all, "node"));
  if (!ready.empty()) {
    text += fmt::format("; train on {} with: {} --on {} <workspace>",
                        ready.size() == 1 ? "it" : "those", train, on_text(cluster, ready));
  }
  if (ready.size() == session.members().size() || (options.any && !ready.empty())) {
    for (const Member& member : session.members()) {
      if (member.error) context.console.note("left out: " + member.error->message);
    }
    context.console.note(text);
    return {};
  }
  Error error = session.all_well().error();
  error.message = text + "\n" + error.message;
  if (!ready.empty() && !options.any) {
    error.hint += fmt::format("{}continue without them: paddlectl up --any {}",
                              error.hint.empty() ? "" : "; or ", options.cluster);
  }
  return error;
}

// Notes nodes whose libc is too old for the GPU engine; they can still train on CPUs.
void note_old_nodes(Context& context, const ClusterSpec& cluster, ClusterSession& session,
                    const std::vector<NodeReport>& reports) {
  for (const Member& member : session.members()) {
    const wire::agent::Facts& facts = reports[member.node].facts;
    const ClusterNode& node = cluster.nodes[member.node];
    if (member.error || facts.gpus().empty() || !node.runs_trainer) continue;
    if (const Status libc = check_libc(node, facts); !libc) {
      context.console.note(fmt::format("{}: {}", libc.error().message, libc.error().hint));
    }
  }
}

// Warns of too little disk space for a job, and of nodes that are not in the cluster file. Such
// nodes are ready all the same.
void note_lacks(Context& context, const ClusterSpec& cluster, ClusterSession& session,
                const std::vector<NodeReport>& reports) {
  for (const Member& member : session.members()) {
    const wire::agent::Facts& facts = reports[member.node].facts;
    if (member.error || facts.disk_free_bytes() >= kDiskFreeBytesMin) continue;
    context.console.note(fmt::format(
        "warning: node {}: {} free on the disk of {}; a job needs at least {}", member.spec.name,
        human_bytes(facts.disk_free_bytes()), facts.root(), human_bytes(kDiskFreeBytesMin)));
  }
  const std::string unknown =
      describe_unknown_nodes(context, session, cluster, AskedMachines::kFew);
  if (!unknown.empty()) {
    context.console.note("warning: " + unknown);
    context.console.note(hint_of_unknown_nodes(cluster));
  }
}

Status run_up(Context& context, const UpOptions& asked) {
  UpOptions options = asked;
  if (options.cluster.empty()) options.cluster = options.file;
  if (!options.file.empty() && options.file != options.cluster) {
    return Error{
        Errc::kUsage,
        fmt::format("two cluster files: {}, and --cluster {}", options.file, options.cluster),
        "give only one of them"};
  }
  PADDLE_TRY(ClusterSpec cluster, choose_cluster_file(context.directory, options.cluster));
  if (options.dry_run) return show_plan(context, cluster);
  const std::vector<std::string> left_out = left_out_of(context.directory, cluster);
  const auto before = find_current(context.directory);
  std::string place = place_of(context, options, cluster, left_out);
  if (!place.empty()) PADDLE_TRY_STATUS(check_place(place));
  PADDLE_TRY(const remote::PushItem engine, engine_item(context.engine));
  PADDLE_TRY_STATUS(make_nodes(context, options, place, cluster));
  PADDLE_TRY(const std::vector<std::size_t> nodes, select_nodes(cluster, options.on));
  if (!cluster.provider) {
    context.console.note(
        fmt::format("cluster '{}': {}", cluster.name, counted(nodes.size(), "node")));
  }
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
  const auto blocks = first_blocks(cluster, addresses);
  (void)session.each([&](Member& member) -> Status {
    if (member.error) return *member.error;
    return check_ports(cluster, member, blocks[member.node], reports[member.node]);
  });
  // The hash cache only saves time, so a failure to write it is a note.
  if (const Status kept = source.save(); !kept) context.console.note(kept.error().message);

  Table table = report_table();
  for (const Member& member : session.members())
    table.rows.push_back(row_of(member, reports[member.node]));
  context.console.table(table);
  if (check_gpu_engine(context)) note_old_nodes(context, cluster, session, reports);
  if (cluster.is_clear()) context.console.note(kClearTransport);
  note_lacks(context, cluster, session, reports);
  const auto used_here = hides_default(context, options, cluster.file);
  const std::string train =
      used_here ? "paddlectl train --cluster " + options.cluster : "paddlectl train";
  PADDLE_TRY_STATUS(check_ready(context, cluster, session, options, train));
  const std::vector<std::string> left_out_now = still_left_out(session, left_out);
  place = place_of(context, options, cluster, left_out_now);
  if (!place.empty()) PADDLE_TRY_STATUS(remember_cluster(place, cluster.file, left_out_now));
  note_other_cluster(context, before);
  if (const auto left = context.nodes_left_ms()) context.console.note(time_limit_text(*left));
  if (used_here) {
    context.console.note(fmt::format(
        "commands here still use {}, which {} names; for this cluster add --cluster {}, or make it "
        "this folder's: paddlectl up {}",
        shown_path(context, used_here->file), shown_path(context, used_here->source),
        options.cluster, options.cluster));
  }
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
