#include "cli/commands/shared_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/selection.h"
#include "cli/cluster/unknown_nodes.h"

namespace paddle::cli {

Option cluster_option(std::string& file) {
  return {"--cluster", "cluster file; default: the one of `up` here or in a parent folder", &file,
          "FILE"};
}

Option on_option(std::string& nodes) {
  return {"--on,--node", "only these nodes and groups: gpu,node[01-04],!node02; default: all",
          &nodes, "NODES"};
}

Option output_option(std::string& folder) {
  return {"--output", "folder for results; default: output", &folder, "DIR"};
}

Option workspace_argument(std::string& folder) {
  return {"workspace", "folder with job.toml; default: this one", &folder, "DIR"};
}

Option overrides_option(std::vector<std::string>& overrides) {
  return {"--set", "override a key of job.toml: --set train.passes=3 (repeatable)", &overrides,
          "KEY=VALUE"};
}

OptionList node_options(NodeTarget& target) {
  return {cluster_option(target.cluster), on_option(target.on)};
}

std::vector<std::string> leave_out_as_up_did(Context& context, ClusterSession& session,
                                             const ClusterSpec& cluster, const NodeTarget& target) {
  if (!target.on.empty()) return {};
  const std::vector<std::string> before = left_out_of(context.directory, cluster);
  std::vector<std::string> names = session.leave_out_unreachable(&before);
  if (!names.empty()) {
    context.console.note(fmt::format("still unreachable and left out, as in `up --any`: {}",
                                     fmt::join(names, ", ")));
  }
  return names;
}

Result<std::vector<std::size_t>> choose_nodes(Context& context, const ClusterSpec& cluster,
                                              const std::string& on) {
  PADDLE_TRY(std::vector<std::size_t> nodes, select_nodes(cluster, on));
  if (!on.empty()) return nodes;
  const std::vector<std::string> before = left_out_of(context.directory, cluster);
  std::vector<std::string> names;
  const auto is_left_out = [&](std::size_t node) {
    return std::ranges::find(before, cluster.nodes[node].spec.name) != before.end();
  };
  for (const std::size_t node : nodes) {
    if (is_left_out(node)) names.push_back(cluster.nodes[node].spec.name);
  }
  if (names.empty() || names.size() == nodes.size()) return nodes;
  std::erase_if(nodes, is_left_out);
  context.console.note(
      fmt::format("left out, as in `up --any`: {}; once {} again, run paddlectl up",
                  fmt::join(names, ", "), names.size() == 1 ? "it answers" : "they answer"));
  return nodes;
}

Option job_option(JobTarget& target) {
  return {"--job,--name", "the same as JOB", &target.job, "JOB"};
}

Option job_argument(JobTarget& target) {
  return {.name = "job",
          .help = "the job; default: the latest",
          .target = &target.job,
          .value_name = "JOB",
          .excludes = {"--job"}};
}

Option passes_option(ResultsOptions& options) {
  return {"--pass",
          "snapshots to fetch: last, best (by held-out cost, or the first evaluator of the tests), "
          "all, or a name such as pass-00002; default: the last, and the best if it is kept",
          &options.passes, "PASS"};
}

OptionList results_options(ResultsOptions& options) {
  return {cluster_option(options.target.cluster), on_option(options.target.on),
          job_option(options.target), job_argument(options.target), output_option(options.output)};
}

Result<FoundJob> find_job(Context& context, const JobTarget& target, Missing missing) {
  PADDLE_TRY(ClusterSpec cluster, choose_cluster(context.directory, target.cluster));
  PADDLE_TRY(const std::vector<std::size_t> nodes, select_nodes(cluster, target.on));
  ClusterSession session = ClusterSession::find(context, cluster, nodes);
  if (missing == Missing::kRefusedUnlessAbsent) session.forgive_absent();
  const bool leaves_out = missing == Missing::kAllowedIfLeftOut;
  if (leaves_out) (void)leave_out_as_up_did(context, session, cluster, target);
  auto chosen = choose_job(session, target.job);
  if (!chosen && session.unreachable() == 0)
    return with_unknown_nodes(context, session, cluster, std::move(chosen).error());
  PADDLE_TRY(std::string job, std::move(chosen));
  const bool may_leave_out = target.on.empty() && session.unreachable() > 0;
  if (may_leave_out && size_of_job(session.look(context.clock, job).processes).all_seen) {
    const std::vector<std::string> names = session.leave_out_unreachable();
    context.console.note(
        fmt::format("{} is not on {}, which cannot be reached", job, fmt::join(names, ", ")));
  }
  if (missing != Missing::kAllowed && !leaves_out) PADDLE_TRY_STATUS(session.all_well());
  return FoundJob{std::move(cluster), std::move(session), std::move(job)};
}

}  // namespace paddle::cli
