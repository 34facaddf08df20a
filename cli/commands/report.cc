#include "cli/report/report.h"

#include <filesystem>

#include <fmt/format.h>

#include "cli/commands/shared_options.h"
#include "cli/job/folders.h"
#include "cli/job/results.h"

namespace paddle::cli {
namespace {

constexpr const char* kOtherOutput = "choose another --output";

OptionList report_options(ResultsOptions& options) {
  return {cluster_option(options.target.cluster), job_option(options.target),
          job_argument(options.target), output_option(options.output)};
}

struct Made {
  std::string job;
  ReportFiles files;
};

Result<Made> from_nodes(Context& context, const ResultsOptions& options,
                        const std::string& output) {
  PADDLE_TRY(FoundJob found, find_job(context, options.target, Missing::kRefused));
  auto& [cluster, session, job] = found;
  auto fetched = fetch_results(context, session, job, output, std::nullopt);
  if (!fetched) return std::move(fetched).error();
  PADDLE_TRY(ReportFiles files, collect_report(context, session, job, output));
  return Made{job, std::move(files)};
}

// Whether the error means that the nodes give nothing any more, while the files here may be good.
bool are_nodes_gone(const Error& error) {
  return error.code == Errc::kUnreachable || error.code == Errc::kUsage ||
         error.code == Errc::kAuth || error.code == Errc::kVersion;
}

Status run_report(Context& context, const ResultsOptions& options) {
  const std::string output =
      (std::filesystem::path(context.directory) / options.output).lexically_normal().string();
  const std::string& job = options.target.job;
  if (!job.empty()) PADDLE_TRY_STATUS(check_job_name(job));
  Result<Made> made = from_nodes(context, options, output);
  if (!made && !job.empty() && are_nodes_gone(made.error())) {
    // Uses the files that were fetched earlier, unless their folder is the reason.
    PADDLE_TRY_STATUS(check_output_folder(context, output, job, kOtherOutput));
    auto files = make_report(output, job, context.share);
    if (files) {
      context.console.note("made from the files in " + shown_path(context, output + "/" + job) +
                           ", without the nodes: " + made.error().message);
      made = Made{job, *std::move(files)};
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

}  // namespace

Command report_command() {
  return {"report", "write a job's report page (report.html) and its curves for TensorBoard",
          "  paddlectl report\n"
          "  paddlectl report word2vec-20260101-120000",
          [] { return invocation(report_options, run_report); }};
}

}  // namespace paddle::cli
