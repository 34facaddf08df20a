#include "cli/options/log_choice.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/cluster/current_cluster.h"
#include "cli/options/shared_options.h"

namespace paddle::cli {
namespace {

Error nothing_chosen(const std::string& job, const LogChoice& choice) {
  return {Errc::kUsage,
          fmt::format("job {} has no {}{}", job,
                      choice.role.empty() ? "process" : "'" + choice.role + "'",
                      choice.node.empty() ? "" : " on node " + choice.node),
          fmt::format("roles are pserver, trainer, or one process like trainer-2; they are in: "
                      "paddlectl status --job {}",
                      job)};
}

}  // namespace

OptionList log_choice_options(LogChoice& choice) {
  return {
      cluster_option(choice.target.cluster),
      on_option(choice.target.on),
      job_option(choice.target),
      {"-f,--follow", "follow new lines until the job ends", &choice.follow},
      {"--node", "only this node", &choice.node},
      {"--role", "pserver, trainer, or one process like trainer-2", &choice.role},
  };
}

bool is_chosen(const ProcessOnNode& process, const std::string& node_name,
               const LogChoice& choice) {
  const std::string& name = process.status.name;
  return (choice.node.empty() || choice.node == node_name) &&
         (choice.role.empty() || name == choice.role || name.starts_with(choice.role + "-"));
}

Status check_node(Context& context, const LogChoice& choice) {
  PADDLE_TRY(const ClusterSpec cluster, choose_cluster(context.directory, choice.target.cluster));
  const bool known_node = std::ranges::any_of(
      cluster.nodes, [&](const ClusterNode& node) { return node.spec.name == choice.node; });
  if (!choice.node.empty() && !known_node) {
    return Error{Errc::kUsage,
                 fmt::format("no node '{}' in cluster '{}'", choice.node, cluster.name),
                 "paddlectl status shows the nodes"};
  }
  return {};
}

Status print_all(Context& context, FoundJob& job, LogFollow& logs, const LogChoice& choice,
                 Duration period, const std::function<void(const LogMerge::Line&)>& print) {
  for (;;) {
    const Status read = logs.read(choice.follow);
    while (const auto line = logs.next()) {
      if (context.interrupted() || context.console.closed()) break;
      print(*line);
    }
    if (context.console.closed()) return {};
    if (context.interrupted()) return Error{Errc::kInterrupted, "interrupted; the job runs on", ""};
    PADDLE_TRY_STATUS(read);
    PADDLE_TRY_STATUS(job.session.all_well());
    if (logs.size() == 0) return nothing_chosen(job.name, choice);
    if (logs.all_read() && (!choice.follow || !logs.any_running())) return {};
    if (choice.follow) context.pause(period);
  }
}

}  // namespace paddle::cli
