#include <filesystem>

#include <fmt/format.h>

#include "cli/job/results.h"
#include "cli/options/shared_options.h"
#include "cli/report/report.h"

namespace paddle::cli {
namespace {

Status run_fetch(Context& context, const ResultsOptions& options) {
  PADDLE_TRY(FoundJob found, find_job(context, options.target, Missing::kAllowed));
  auto& [cluster, session, job] = found;
  // Results of the reachable nodes are fetched even when another node is down, and the command
  // fails.
  const Status reached = session.all_well();
  const std::filesystem::path base = std::filesystem::path(context.directory) / options.output;
  auto fetched = fetch_results(session, job, base.string());
  if (!fetched) return std::move(fetched).error();
  add_report(context, session, job, base.string());
  const std::string folder = shown_path(context, (base / job).string());
  context.console.result(
      Json::object({{"job", job},
                    {"files", fetched->files},
                    {"files_fetched", fetched->files_fetched},
                    {"output", folder}}),
      fmt::format("{} files ({} new) in {}", fetched->files, fetched->files_fetched, folder));
  return reached;
}

}  // namespace

Command fetch_command() {
  return {"fetch", "fetch a job's logs and snapshots into output/<job>/",
          "  paddlectl fetch\n"
          "  paddlectl fetch --job word2vec-20260101-120000 --output results",
          [] { return invocation(results_options, run_fetch); }};
}

}  // namespace paddle::cli
