// The style sheet and the script of the report page.
#pragma once

namespace paddle::cli {

extern const char* const kReportStyle;
extern const char* const kReportScript;

}  // namespace paddle::cli
