#include "cli/report/report.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "base/fd.h"
#include "cli/job/folders.h"
#include "cli/job/results.h"
#include "cli/report/page.h"
#include "cli/report/record.h"
#include "cli/report/tensorboard.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

// Takes job.toml from the first node that gives it; a report does without it.
void fetch_configuration(ClusterSession& session, const std::string& job, const fs::path& folder) {
  for (Member& member : session.members()) {
    if (!member.client) continue;
    const std::string path = job_folder(job) + "/workspace/job.toml";
    if (member.client->fetch(path, (folder / "job.toml").string())) return;
  }
}

}  // namespace

Result<ReportFiles> make_report(const std::string& output, const std::string& job,
                                const std::string& share) {
  const std::string folder = (fs::path(output) / job).string();
  PADDLE_TRY(const JobRecord record, read_job_record(folder, job));
  ReportFiles files;
  PADDLE_TRY(files.scalars, write_event_files(folder, record));
  files.page = folder + "/report.html";
  PADDLE_TRY(const std::string page, report_page(record, share));
  PADDLE_TRY_STATUS(replace_file(files.page, as_bytes(page), 0644));
  return files;
}

Result<ReportFiles> collect_report(Context& context, ClusterSession& session,
                                   const std::string& job, const std::string& output) {
  PADDLE_TRY_STATUS(check_job_name(job));
  const fs::path folder = fs::path(output) / job;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    return Error{Errc::kResource, fmt::format("create {}: {}", folder.string(), error.message()),
                 "choose another --output"};
  }
  JobView view(job);
  view.look(context, session);
  PADDLE_TRY_STATUS(write_processes(folder.string(), view));
  fetch_configuration(session, job, folder);
  return make_report(output, job, context.share);
}

void add_report(Context& context, ClusterSession& session, const std::string& job,
                const std::string& output) {
  const auto files = collect_report(context, session, job, output);
  context.console.note(files ? "report: " + shown_path(context, files->page)
                             : "no report was made: " + files.error().message);
}

}  // namespace paddle::cli
