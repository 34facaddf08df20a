// An extended regular expression over log lines, as of grep -E, for --grep.
#pragma once

#include <regex.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace paddle::cli {

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
