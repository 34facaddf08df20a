// A line of a process's log: as people read it, and whether --grep asks for it.
#pragma once

#include <regex.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace paddle::cli {

// A line as people read it beside the process's name.
// "I0317 17:26:12.388079 trainer-0] text" of the engine becomes "17:26:12 text", a warning
// "17:26:12 warning: text"; "AvgCost=6.1 CurrentCost=6.1" says it once. A line of another form
// stays as it is.
std::string shown_line(const std::string& line);

// An extended regular expression over log lines, as of grep -E, for --grep.
// Uses regcomp(3), since the recursion of std::regex overflows the stack on a long line.
class LinePattern {
 public:
  static Result<LinePattern> compile(const std::string& text);  // "" matches every line
  bool matches(std::string_view line) const;

 private:
  struct Free {
    void operator()(regex_t* compiled) const;
  };
  std::unique_ptr<regex_t, Free> compiled_;
};

}  // namespace paddle::cli
