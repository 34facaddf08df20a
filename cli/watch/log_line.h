// A line of a process's log: its form for people, and the pattern of --grep.
#pragma once

#include <regex.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace paddle::cli {

// A line in the form that is printed beside the process's name. The engine's
// "I0317 17:26:12.388079 trainer-0] text" becomes "17:26:12 text", and a warning becomes
// "17:26:12 warning: text". If AvgCost and CurrentCost are equal, CurrentCost is left out. Other
// lines stay as they are.
std::string shown_line(const std::string& line);

// An extended regular expression over log lines for --grep, as in grep -E. Uses regcomp(3), because
// the recursion of std::regex overflows the stack on a long line.
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
