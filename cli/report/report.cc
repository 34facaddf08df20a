#include "cli/report/report.h"

#include <algorithm>
#include <filesystem>

#include "base/fd.h"
#include "base/sha256.h"
#include "base/text.h"
#include "cli/console/base64.h"
#include "cli/job/folders.h"
#include "cli/job/results.h"
#include "cli/job/settings.h"
#include "cli/job/text_template.h"
#include "cli/report/job_json.h"
#include "cli/report/record.h"
#include "cli/report/tensorboard.h"

namespace paddle::cli {

// Defined in embedded_template.cc.in.
extern const char* const kReportHtml;
extern const char* const kReportStyle;
extern const char* const kReportScript;
extern const char* const kLiveStyle;
extern const char* const kLiveScript;

namespace {

constexpr std::size_t kTemplateBytesMax = 1U << 20U;

// A source expression of a Content-Security-Policy.
std::string source_hash(std::string_view text) {
  Sha256 hash;
  hash.update(as_bytes(text));
  return "sha256-" + base64(hash.finish());
}

std::string html_text(std::string_view text) {
  std::string out;
  for (const char c : escape_control(text)) {
    out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : std::string(1, c);
  }
  return out;
}

std::string template_part(const std::string& share, const std::string& name, const char* embedded) {
  if (share.empty()) return embedded;
  auto text = read_file(share + "/templates/report/" + name, kTemplateBytesMax);
  return text ? *std::move(text) : embedded;
}

namespace fs = std::filesystem;

constexpr std::uint32_t kJobFileBytesMax = 256U << 10U;

// Fetches job.toml and the settings from a node, unless this machine started the job: then its own
// files are never replaced by a node's. Elsewhere the node's files get other names, so that no user
// takes them for their own.
void fetch_configuration(ClusterSession& session, const std::string& job, const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder / kSettingsFile, error)) return;
  for (Member& member : session.members()) {
    if (!member.client) continue;
    const auto file =
        member.client->read_file(workspace_folder(job) + "/job.toml", 0, kJobFileBytesMax);
    if (!file || file->data.size() != file->size ||
        !replace_file((folder / kConfigurationOfNode).string(), as_bytes(file->data), 0644)) {
      continue;
    }
    const auto settings =
        member.client->read_whole_file(job_folder(job) + "/" + kSettingsFile, kSettingsBytesMax);
    if (settings)
      (void)replace_file((folder / kSettingsOfNode).string(), as_bytes(*settings), 0644);
    return;
  }
}

// A page that is alive asks its own server for news.
enum class Kind { kFile, kLive };

// `json`: the data that the page's script draws.
Result<std::string> page_of(const std::string& title, const std::string& json,
                            const std::string& share, Kind kind = Kind::kFile) {
  std::string script = template_part(share, "report.js", kReportScript);
  std::string style = template_part(share, "report.css", kReportStyle);
  if (kind == Kind::kLive) {
    script += template_part(share, "live.js", kLiveScript);
    style += template_part(share, "live.css", kLiveStyle);
  }
  return fill_words("report.html", template_part(share, "report.html", kReportHtml),
                    {{"title", html_text(title)},
                     {"style", style},
                     {"style_hash", source_hash(style)},
                     {"script", script},
                     {"script_hash", source_hash(script)},
                     {"connect", kind == Kind::kLive ? "'self'" : "'none'"},
                     {"job", json}});
}

}  // namespace

Result<std::string> report_page(const JobRecord& record, const std::string& share) {
  return page_of(record.job, job_json(record), share);
}

Result<std::string> comparison_page(const Comparison& comparison, const std::string& share) {
  return page_of(counted(comparison.jobs.size(), "job") + " compared",
                 script_text(comparison_json(comparison)), share);
}

Result<std::string> live_page(const Json& start, const std::string& share) {
  return page_of("paddlectl dashboard", script_text(start), share, Kind::kLive);
}

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
  PADDLE_TRY(const fs::path folder,
             make_output_folder(context, output, job, "choose another --output"));
  PADDLE_TRY(const OutputLock lock, OutputLock::take(context, folder));
  JobView view(job);
  view.look(context, session);
  PADDLE_TRY_STATUS(write_processes(folder.string(), view));
  PADDLE_TRY_STATUS(write_machines(folder.string(), session));
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
