// The report page and the event files of a job in its output folder.
#pragma once

#include <string>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"

namespace paddle::cli {

struct ReportFiles {
  std::string page;         // <folder>/report.html
  std::size_t scalars = 0;  // in the event files below <folder>/tensorboard
};

// From <output>/<job> alone, as collect_report or a fetch left it.
Result<ReportFiles> make_report(const std::string& output, const std::string& job);
// What only the nodes know goes into <output>/<job> first; logs and metrics must be there already.
Result<ReportFiles> collect_report(Context& context, ClusterSession& session,
                                   const std::string& job, const std::string& output);
// The same at the end of a command about something else: a failure is a note.
void add_report(Context& context, ClusterSession& session, const std::string& job,
                const std::string& output);

}  // namespace paddle::cli
