// The report of a job: a self-contained page and TensorBoard event files in its output folder.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"
#include "cli/report/record.h"

namespace paddle::cli {

// templates/report with the job's JSON inlined. The files are those of `share`, the folder that
// holds templates/; paddlectl's own copy stands in for a file that is not there. The page's policy
// admits its own script only, by hash. kUsage for a {{word}} in report.html without a meaning.
Result<std::string> report_page(const JobRecord& record, const std::string& share);

struct ReportFiles {
  std::string page;         // <folder>/report.html
  std::size_t scalars = 0;  // in the event files below <folder>/tensorboard
};

// Made from <output>/<job> alone, as collect_report or a fetch left it; `share` as of report_page.
Result<ReportFiles> make_report(const std::string& output, const std::string& job,
                                const std::string& share);
// Writes what only the nodes know into <output>/<job> first. Logs and metrics are there already.
Result<ReportFiles> collect_report(Context& context, ClusterSession& session,
                                   const std::string& job, const std::string& output);
// The same at the end of another command, for which a failure is no more than a note.
void add_report(Context& context, ClusterSession& session, const std::string& job,
                const std::string& output);

}  // namespace paddle::cli
