#include "cli/report/report.h"

#include <filesystem>

#include <fmt/format.h>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/current_cluster.h"
#include "cli/commands/commands.h"
#include "cli/console/json.h"
#include "cli/job/plan.h"
#include "cli/job/results.h"

namespace paddle::cli {
namespace {

struct Made {
  std::string job;
  ReportFiles files;
};

Result<Made> from_nodes(Context& context, const CommandOptions& options,
                        const std::string& output) {
  PADDLE_TRY(const ClusterSpec cluster, choose_cluster(context.directory, options.cluster));
  ClusterSession session = ClusterSession::find_all(context, cluster);
  PADDLE_TRY_STATUS(session.all_well());
  PADDLE_TRY(const std::string job, choose_job(session, options.job));
  if (auto fetched = fetch_logs(session, job, output); !fetched) return std::move(fetched).error();
  PADDLE_TRY(ReportFiles files, collect_report(context, session, job, output));
  return Made{job, std::move(files)};
}

}  // namespace

Status run_report(Context& context, const CommandOptions& options) {
  const std::string output =
      (std::filesystem::path(context.directory) / options.output).lexically_normal().string();
  if (!options.job.empty()) PADDLE_TRY_STATUS(check_job_name(options.job));
  Result<Made> made = from_nodes(context, options, output);
  if (!made && !options.job.empty()) {
    // A job whose nodes are gone still has what was brought home.
    auto files = make_report(output, options.job, context.share);
    if (files) {
      context.console.note("from what is in " + shown_path(context, output + "/" + options.job) +
                           ", without the nodes: " + made.error().message);
      made = Made{options.job, *std::move(files)};
    }
  }
  if (!made) return std::move(made).error();
  const std::string page = shown_path(context, made->files.page);
  if (context.console.json()) {
    context.console.json_line(
        Json::object({{"job", made->job}, {"report", page}, {"scalars", made->files.scalars}}));
  } else {
    context.console.result(page);
    context.console.note("open it in a browser; curves for TensorBoard: tensorboard --logdir " +
                         shown_path(context, output + "/" + made->job + "/tensorboard"));
  }
  return {};
}

}  // namespace paddle::cli
