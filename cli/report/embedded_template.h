// The files of templates/report as they were when paddlectl was built.
#pragma once

namespace paddle::cli {

extern const char* const kReportHtml;
extern const char* const kReportStyle;
extern const char* const kReportScript;

}  // namespace paddle::cli
