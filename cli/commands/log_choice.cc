#include "cli/commands/log_choice.h"

#include <algorithm>

#include <fmt/format.h>

namespace paddle::cli {
namespace {

Error nothing_chosen(const std::string& job, const CommandOptions& options) {
  return {Errc::kUsage,
          fmt::format("job {} has no {}{}", job,
                      options.role.empty() ? "process" : "'" + options.role + "'",
                      options.node.empty() ? "" : " on node " + options.node),
          fmt::format("roles are pserver, trainer, or one process like trainer-2; they are in: "
                      "paddlectl status --job {}",
                      job)};
}

}  // namespace

bool is_chosen(const ProcessOnNode& process, const std::string& node_name,
               const CommandOptions& options) {
  const std::string& name = process.status.name;
  return (options.node.empty() || options.node == node_name) &&
         (options.role.empty() || name == options.role || name.starts_with(options.role + "-"));
}

Status check_node(const ClusterSpec& cluster, const CommandOptions& options) {
  const bool known_node = std::ranges::any_of(
      cluster.nodes, [&](const ClusterNode& node) { return node.spec.name == options.node; });
  if (!options.node.empty() && !known_node) {
    return Error{Errc::kUsage,
                 fmt::format("no node '{}' in cluster '{}'", options.node, cluster.name),
                 "paddlectl status shows the nodes"};
  }
  return {};
}

Status print_all(Context& context, ClusterSession& session, LogFollow& logs, const std::string& job,
                 const CommandOptions& options, Duration period,
                 const std::function<void(const LogMerge::Line&)>& print) {
  for (;;) {
    const Status read = logs.read(options.follow);
    while (const auto line = logs.next()) {
      if (context.interrupted() || context.console.closed()) break;
      print(*line);
    }
    if (context.console.closed()) return {};
    if (context.interrupted()) return Error{Errc::kInterrupted, "interrupted; the job runs on", ""};
    PADDLE_TRY_STATUS(read);
    PADDLE_TRY_STATUS(session.all_well());
    if (logs.size() == 0) return nothing_chosen(job, options);
    if (logs.all_read() && (!options.follow || !logs.any_running())) return {};
    if (options.follow) context.pause(period);
  }
}

}  // namespace paddle::cli
