#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/selection.h"
#include "cli/cluster/unknown_nodes.h"
#include "cli/commands/shared_options.h"
#include "cli/job/job_claim.h"
#include "cli/job/removal.h"
#include "cli/job/results.h"
#include "proto/agent.pb.h"

namespace paddle::cli {
namespace {

constexpr int kTriesMax = 3;

struct TeardownOptions {
  NodeTarget target;
  bool keep_data = false;
  RemovalConsent consent;
};

OptionList teardown_options(TeardownOptions& options) {
  return {cluster_option(options.target.cluster),
          on_option(options.target.on),
          {"--keep-data", "keep the jobs' snapshots and logs on the nodes", &options.keep_data},
          {"--yes",
           "do not ask; without --discard it is refused while a job runs, or results were never "
           "fetched",
           &options.consent.yes},
          {"--discard", "with --yes: end running jobs, and lose results that were never fetched",
           &options.consent.discard},
          {"--dry-run", "list what would be removed: jobs, files and bytes of each node",
           &options.consent.dry_run}};
}

// Waits for commands that save, fetch or remove jobs on these nodes.
Status wait_for_commands(Context& context, ClusterSession& session,
                         const std::vector<JobOnNodes>& jobs) {
  for (const JobOnNodes& job : jobs) {
    Status claimed = claim_or_refuse(context, session, job.job, {.command = JobCommand::kTeardown});
    // A claim that is refused for another reason does not keep teardown from removing everything.
    if (!claimed && claimed.error().code == Errc::kInterrupted) return claimed;
  }
  session.forgive_absent();  // if another teardown removed them
  return {};
}

// Whether another command made the node's folder anew after its agent had removed it. Only folders
// of this machine can be seen without a new agent.
bool is_made_anew(const Member& member, const std::string& folder, bool keep_data) {
  std::error_code ignored;
  return member.spec.is_local() && !keep_data && std::filesystem::exists(folder, ignored);
}

Status teardown_node(Member& member, bool keep_data, wire::agent::TeardownReply& total) {
  PADDLE_TRY(const wire::agent::Facts facts, member.client->facts());
  PADDLE_TRY(const wire::agent::TeardownReply report, member.client->teardown(keep_data));
  member.client.reset();
  total.set_processes_ended(total.processes_ended() + report.processes_ended());
  total.set_files_removed(total.files_removed() + report.files_removed());
  if (!report.remaining().empty()) {
    std::string what;
    for (const std::string& item : report.remaining()) what += "\n  " + item;
    return Error{Errc::kFailed, fmt::format("node {}: these remain:{}", member.spec.name, what),
                 "remove them by hand, or run paddlectl teardown again"};
  }
  if (!is_made_anew(member, facts.root(), keep_data)) return {};
  return Error{Errc::kUnreachable,
               fmt::format("node {}: another paddlectl has made {} anew, as train and up do",
                           member.spec.name, facts.root()),
               "wait until that command has ended, then run paddlectl teardown again"};
}

// Refuses to remove a job that the user was not asked about.
Status check_new_jobs(ClusterSession& session, const std::vector<JobOnNodes>& known) {
  std::vector<JobOnNodes> jobs;
  PADDLE_TRY_STATUS(list_jobs_on_nodes(session, jobs));
  for (const JobOnNodes& job : jobs) {
    if (std::ranges::find(known, job.job, &JobOnNodes::job) != known.end()) continue;
    return Error{Errc::kUsage, fmt::format("job {} was started on these nodes meanwhile", job.job),
                 "run paddlectl teardown again"};
  }
  return {};
}

// Removes everything. Tries again if another command is in the way: a teardown that has ended the
// agents of this one, or a start of a job that has made a folder anew.
Status teardown_all(Context& context, ClusterSession& session, const TeardownOptions& options,
                    const std::vector<JobOnNodes>& jobs,
                    std::vector<wire::agent::TeardownReply>& reports) {
  const bool may_discard = options.consent.yes && options.consent.discard;
  for (int tries = 1;; ++tries) {
    std::vector<const Member*> reached;
    for (const Member& member : session.members()) {
      if (member.client) reached.push_back(&member);
    }
    Status done = session.each([&](Member& member) {
      Status removed = teardown_node(member, options.keep_data, reports[member.node]);
      if (!removed && removed.error().code == Errc::kUnreachable) member.client.reset();
      return removed;
    });
    const bool is_in_the_way = std::ranges::any_of(reached, [](const Member* member) {
      return member->error && member->error->code == Errc::kUnreachable;
    });
    if (done || !is_in_the_way || tries == kTriesMax) return done;
    session.reconnect(context);
    session.forgive_absent();
    if (!may_discard) PADDLE_TRY_STATUS(check_new_jobs(session, jobs));
  }
}

// Gives the nodes back to their provider, and forgets the cluster.
Status give_back(Context& context, const ClusterSpec& cluster) {
  Status destroyed = cluster.provider->destroy(work_of(context));
  context.console.end_progress();
  if (!destroyed) {
    Error error = std::move(destroyed).error();
    error.hint +=
        fmt::format("{}run paddlectl teardown again", error.hint.empty() ? "" : "; then ");
    return error;
  }
  context.console.note(
      fmt::format("cluster '{}': given back, {}", cluster.name, cluster.provider->describe()));
  forget_cluster(context.directory, cluster.file);
  return {};
}

// Adds the nodes that the provider lists. True if there are none, so that only what a broken `up`
// has made may be left. kUsage: a node that does not run may hold results, which nothing can look
// at; not with --yes --discard.
Result<bool> has_no_nodes(ClusterSpec& cluster, const RemovalConsent& consent) {
  if (!cluster.provider) return false;
  const Status added = add_nodes(cluster);
  if (!added && (!cluster.nodes.empty() || added.error().code != Errc::kUsage))
    return added.error();
  std::vector<std::string> held;
  for (const ProvidedNode& node : cluster.provided) {
    if (node.table.empty() && !node.is_fresh()) held.push_back(node.name + " is " + node.state);
  }
  if (!held.empty() && !(consent.yes && consent.discard)) {
    return Error{Errc::kUsage,
                 fmt::format("cannot list what would be lost: {}", fmt::join(held, ", ")),
                 "start these nodes first, or lose what is on them: --yes --discard"};
  }
  return !added;
}

// Whether the jobs' files stay when the nodes are given back, as on a volume; if not, --keep-data
// keeps the nodes as well.
bool data_outlives_nodes(const ClusterSpec& cluster) {
  return std::ranges::all_of(cluster.nodes, [&](const ClusterNode& node) {
    return cluster.provider->keeps(node.spec.root);
  });
}

// Nodes on which nothing has ever run cannot be reached, and have nothing to lose.
void forgive_fresh_nodes(const ClusterSpec& cluster, ClusterSession& session) {
  for (Member& member : session.members()) {
    const auto node = std::ranges::find(cluster.provided, member.spec.name, &ProvidedNode::name);
    if (member.client || node == cluster.provided.end() || !node->is_fresh()) continue;
    member.absent = true;
    member.error.reset();
  }
}

Status run_teardown(Context& context, const TeardownOptions& options) {
  PADDLE_TRY(ClusterSpec cluster, choose_cluster_file(context.directory, options.target.cluster));
  PADDLE_TRY(const bool is_empty, has_no_nodes(cluster, options.consent));
  if (is_empty && options.consent.dry_run) return {};
  if (is_empty) return give_back(context, cluster);
  PADDLE_TRY(const std::vector<std::size_t> nodes, select_nodes(cluster, options.target.on));
  ClusterSession session = ClusterSession::find(context, cluster, nodes);
  session.forgive_absent();
  forgive_fresh_nodes(cluster, session);
  const auto left_out = leave_out_as_up_did(context, session, cluster, options.target);
  std::vector<JobOnNodes> jobs;
  Status listed = list_jobs_on_nodes(session, jobs);
  const bool asks = !options.consent.yes || !options.consent.discard;
  const bool gives_back = cluster.provider && nodes.size() == cluster.nodes.size() &&
                          (!options.keep_data || data_outlives_nodes(cluster));
  if (!listed && asks) return std::move(listed).error().with("cannot list what would be lost");
  if (options.consent.dry_run) {
    context.console.table(removal_table(session, jobs));
    if (gives_back)
      context.console.note("would then be given back: " + cluster.provider->describe());
    return session.all_well();
  }
  context.console.note(fmt::format(
      "cluster '{}' ({}): {}{}", cluster.name, shown_path(context, cluster.file),
      counted(session.members().size(), "node"), gives_back ? ", given back afterwards" : ""));
  if (const auto cost = cost_of(cluster, context.unix_seconds()))
    context.console.note(cost_text(cluster, *cost));
  PADDLE_TRY_STATUS(ask_for_consent(context, session, jobs, options.consent, options.keep_data));
  PADDLE_TRY_STATUS(wait_for_commands(context, session, jobs));
  std::vector<wire::agent::TeardownReply> reports(cluster.nodes.size());
  const Status done = teardown_all(context, session, options, jobs, reports);
  Table table{{{"node", "node"},
               {"processes ended", "processes_ended"},
               {"files removed", "files_removed"},
               {"state", "state"}},
              {}};
  for (const Member& member : session.members()) {
    const wire::agent::TeardownReply& report = reports[member.node];
    table.rows.push_back({text_cell(member.spec.name), number_cell(report.processes_ended()),
                          number_cell(report.files_removed()),
                          text_cell(member.error ? "FAILED" : "clean")});
  }
  context.console.table(table);
  if (gives_back && (done || !asks)) return give_back(context, cluster);
  if (!done && gives_back) {
    Error error = done.error();
    error.hint += fmt::format("{}or give them back with all that is on them: --yes --discard",
                              error.hint.empty() ? "" : "; ");
    return error;
  }
  PADDLE_TRY_STATUS(done);
  const std::string unknown =
      describe_unknown_nodes(context, session, cluster, AskedMachines::kFew);
  if (nodes.size() == cluster.nodes.size() && !unknown.empty())
    return Error{Errc::kUsage, unknown, hint_of_unknown_nodes(cluster)};
  if (!left_out.empty()) {
    context.console.note(
        fmt::format("the nodes that were left out may still have files; once they answer: "
                    "paddlectl teardown --cluster {} --on {}",
                    cluster.file, fmt::join(left_out, ",")));
  }
  if (nodes.size() == cluster.nodes.size()) forget_cluster(context.directory, cluster.file);
  return {};
}

}  // namespace

Command teardown_command() {
  return {"teardown", "stop every paddlectl process on every node and remove its files",
          "  paddlectl teardown\n"
          "  paddlectl teardown --dry-run\n"
          "  paddlectl teardown --cluster lab.toml --keep-data --yes",
          [] { return invocation(teardown_options, run_teardown); }};
}

}  // namespace paddle::cli
