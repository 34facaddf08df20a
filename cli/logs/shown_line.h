// A line of a process's log as people read it beside the process's name.
#pragma once

#include <string>

namespace paddle::cli {

// "I0317 17:26:12.388079 trainer-0] text" of the engine becomes "17:26:12 text", a warning
// "17:26:12 warning: text"; "AvgCost=6.1 CurrentCost=6.1" says it once. A line of another form
// stays as it is.
std::string shown_line(const std::string& line);

}  // namespace paddle::cli
