#include <filesystem>

#include <fmt/format.h>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/current_cluster.h"
#include "cli/commands/commands.h"
#include "cli/console/json.h"
#include "cli/job/results.h"
#include "cli/report/report.h"

namespace paddle::cli {

Status run_fetch(Context& context, const CommandOptions& options) {
  PADDLE_TRY(const ClusterSpec cluster, choose_cluster(context.directory, options.cluster));
  ClusterSession session = ClusterSession::find_all(context, cluster);
  PADDLE_TRY(const std::string job, choose_job(session, options.job));
  // What the reachable nodes have comes home even when another node is down; the exit code tells.
  const Status reached = session.all_well();
  const std::filesystem::path base = std::filesystem::path(context.directory) / options.output;
  auto fetched = fetch_results(session, job, base.string());
  if (!fetched) return std::move(fetched).error();
  add_report(context, session, job, base.string());
  const std::string folder = shown_path(context, (base / job).string());
  if (context.console.json()) {
    context.console.json_line(Json::object({{"job", job},
                                            {"files", fetched->files},
                                            {"files_fetched", fetched->files_fetched},
                                            {"output", folder}}));
  } else {
    context.console.result(
        fmt::format("{} files ({} new) in {}", fetched->files, fetched->files_fetched, folder));
  }
  return reached;
}

}  // namespace paddle::cli
