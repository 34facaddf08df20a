#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands/shared_options.h"
#include "cli/job/results.h"
#include "cli/report/report.h"
#include "cli/report/volume.h"

namespace paddle::cli {
namespace {

struct FetchOptions : ResultsOptions {
  bool logs = false;
  std::string from;  // a folder of this machine; "": the nodes
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
  list.push_back({.name = "--from",
                  .help = "take the results from a folder of this machine, such as a volume that "
                          "pods wrote to, in place of nodes",
                  .target = &options.from,
                  .value_name = "DIR",
                  .excludes = {"--cluster", "--on"}});
  return list;
}

void print_fetched(Context& context, const std::string& job, const FetchStats& fetched,
                   const std::filesystem::path& base) {
  const std::string folder = shown_path(context, (base / job).string());
  context.console.result(
      Json::object({{"job", job},
                    {"files", fetched.files},
                    {"files_fetched", fetched.files_fetched},
                    {"output", folder},
                    {"left_on_nodes", Json::list({fetched.left.begin(), fetched.left.end()})}}),
      fmt::format("{} files ({} new) in {}", fetched.files, fetched.files_fetched, folder));
}

Status run_from_volume(Context& context, const FetchOptions& options,
                       const std::optional<PassChoice>& passes) {
  const std::filesystem::path top = std::filesystem::path(context.directory) / options.from;
  PADDLE_TRY(const VolumeJob from, find_on_volume(top.string(), options.target.job));
  const std::filesystem::path base = std::filesystem::path(context.directory) / options.output;
  PADDLE_TRY(const FetchStats fetched, fetch_from_volume(context, from, base.string(), passes));
  PADDLE_TRY_STATUS(write_records_of_volume((base / from.job).string()));
  PADDLE_TRY(const ReportFiles report, make_report(base.string(), from.job, context.share));
  context.console.note("report: " + shown_path(context, report.page));
  if (!fetched.left.empty()) {
    context.console.note(
        fmt::format("not copied: {}; to copy all, add --pass all", fmt::join(fetched.left, ", ")));
  }
  print_fetched(context, from.job, fetched, base);
  return {};
}

Status run_fetch(Context& context, const FetchOptions& options) {
  std::optional<PassChoice> passes;
  if (!options.logs) {
    PADDLE_TRY(passes, parse_pass_choice(options.passes));
  }
  if (!options.from.empty()) return run_from_volume(context, options, passes);
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
  print_fetched(context, job, *fetched, base);
  return reached;
}

}  // namespace

Command fetch_command() {
  return {"fetch", "fetch a job's logs and snapshots into output/<job>/",
          "  paddlectl fetch\n"
          "  paddlectl fetch --pass best\n"
          "  paddlectl fetch --from /mnt/efs --job word2vec\n"
          "  paddlectl fetch --job word2vec-20260101-120000 --output results",
          [] { return invocation(fetch_options, run_fetch); }};
}

}  // namespace paddle::cli
