// One self-contained HTML page about a job.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/report/record.h"

namespace paddle::cli {

// templates/report with the job's JSON inlined. The files are those of `share`, the folder that
// holds templates/; paddlectl's own copy stands in for a file that is not there. The page's policy
// admits its own script only, by hash. kUsage for a {{word}} in report.html without a meaning.
Result<std::string> report_page(const JobRecord& record, const std::string& share);

}  // namespace paddle::cli
