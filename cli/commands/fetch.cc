#include <filesystem>

#include <fmt/format.h>

#include "cli/commands/shared_options.h"
#include "cli/job/results.h"
#include "cli/report/report.h"

namespace paddle::cli {
namespace {

struct FetchOptions : ResultsOptions {
  bool logs = false;
};

OptionList fetch_options(FetchOptions& options) {
  options.passes = "last";
  OptionList list = results_options(options);
  list.push_back({"--pass",
                  "snapshots to fetch: last, best (by held-out cost, or the first evaluator of the "
                  "tests), all, or a name such as pass-00002; default: last",
                  &options.passes, "PASS"});
  list.push_back(
      {"--logs", "fetch logs and metrics alone", &options.logs, "", 0, UINT32_MAX, {}, {"--pass"}});
  return list;
}

Status run_fetch(Context& context, const FetchOptions& options) {
  std::optional<PassChoice> passes;
  if (!options.logs) {
    PADDLE_TRY(passes, parse_pass_choice(options.passes));
  }
  PADDLE_TRY(FoundJob found, find_job(context, options.target, Missing::kAllowed));
  auto& [cluster, session, job] = found;
  // Results of the reachable nodes are fetched even if another node is down; the command then
  // fails.
  Status reached = session.all_well();
  session.set_interrupted([&context] { return context.interrupted(); });
  const std::filesystem::path base = std::filesystem::path(context.directory) / options.output;
  auto fetched = fetch_results(context, session, job, base.string(), passes);
  if (!fetched) return std::move(fetched).error();
  add_report(context, session, job, base.string());
  note_left_snapshots(context, job, base.string(), *fetched);
  const std::string folder = shown_path(context, (base / job).string());
  context.console.result(
      Json::object({{"job", job},
                    {"files", fetched->files},
                    {"files_fetched", fetched->files_fetched},
                    {"output", folder},
                    {"left_on_nodes", Json::list({fetched->left.begin(), fetched->left.end()})}}),
      fmt::format("{} files ({} new) in {}", fetched->files, fetched->files_fetched, folder));
  return reached;
}

}  // namespace

Command fetch_command() {
  return {"fetch", "fetch a job's logs and snapshots into output/<job>/",
          "  paddlectl fetch\n"
          "  paddlectl fetch --pass best\n"
          "  paddlectl fetch --job word2vec-20260101-120000 --output results",
          [] { return invocation(fetch_options, run_fetch); }};
}

}  // namespace paddle::cli
