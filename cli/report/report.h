// The report of a job: a page and TensorBoard event files in its output folder.
#pragma once

#include <string>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"

namespace paddle::cli {

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
