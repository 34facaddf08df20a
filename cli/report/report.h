// The report of a job: a self-contained page and TensorBoard event files in its output folder.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"
#include "cli/console/json.h"
#include "cli/report/comparison.h"
#include "cli/report/record.h"

namespace paddle::cli {

// templates/report with the job's JSON inserted. The files are from `share`, the folder that
// contains templates/; paddlectl's built-in copy replaces a missing file. The page's policy allows
// only its own script and style, by hash. kUsage: a {{word}} in report.html that is not known.
Result<std::string> report_page(const JobRecord& record, const std::string& share);
// The same page with the jobs beside each other.
Result<std::string> comparison_page(const Comparison& comparison, const std::string& share);
// The page of `paddlectl dashboard`, which asks the server that it comes from for everything else.
// `start`: {live: true, cluster, allow_changes}.
Result<std::string> live_page(const Json& start, const std::string& share);

struct ReportFiles {
  std::string page;         // <folder>/report.html
  std::size_t scalars = 0;  // in the event files below <folder>/tensorboard
};

// Makes the report from <output>/<job> alone, as collect_report or a fetch left it. `share`: see
// report_page.
Result<ReportFiles> make_report(const std::string& output, const std::string& job,
                                const std::string& share);
// make_report(), after it writes what only the nodes know into <output>/<job>. Logs and metrics are
// there already.
Result<ReportFiles> collect_report(Context& context, ClusterSession& session,
                                   const std::string& job, const std::string& output);
// collect_report() at the end of another command; a failure is only a note.
void add_report(Context& context, ClusterSession& session, const std::string& job,
                const std::string& output);

}  // namespace paddle::cli
