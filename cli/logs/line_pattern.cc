#include "cli/logs/line_pattern.h"

#include <fmt/format.h>

namespace paddle::cli {

void LinePattern::Free::operator()(regex_t* compiled) const {
  ::regfree(compiled);
  delete compiled;
}

Result<LinePattern> LinePattern::compile(const std::string& text) {
  LinePattern pattern;
  if (text.empty()) return pattern;
  auto compiled = std::make_unique<regex_t>();
  if (const int code = ::regcomp(compiled.get(), text.c_str(), REG_EXTENDED); code != 0) {
    char why[200];
    ::regerror(code, compiled.get(), why, sizeof why);
    return Error{Errc::kUsage, fmt::format("--grep '{}': {}", text, why),
                 "write an extended regular expression, as for grep -E"};
  }
  pattern.compiled_.reset(compiled.release());
  return pattern;
}

bool LinePattern::matches(std::string_view line) const {
  if (!compiled_) return true;
  regmatch_t range{};
  range.rm_eo = static_cast<regoff_t>(line.size());
  return ::regexec(compiled_.get(), line.data(), 1, &range, REG_STARTEND) == 0;
}

}  // namespace paddle::cli
