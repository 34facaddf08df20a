// --grep: an extended regular expression, as in grep -E.
#pragma once

#include <regex.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace paddle::cli {

// regcomp(3) and not std::regex, whose recursion a long line overflows.
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
