// One HTML page about a job, with nothing from outside: style, drawings and a small script inside.
#pragma once

#include <string>

#include "cli/report/record.h"

namespace paddle::cli {

// Every text of the record is escaped. The page's policy admits its own script only, by hash.
std::string report_page(const JobRecord& record);

}  // namespace paddle::cli
