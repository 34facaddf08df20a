#include "cli/watch/log_line.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace paddle::cli {
namespace {

constexpr std::string_view kPrefix = "I0317 17:26:12.388079 ";  // then "trainer-0] "

std::string_view level_text(char letter) {
  return letter == 'W' ? "warning: " : letter == 'E' ? "error: " : letter == 'F' ? "fatal: " : "";
}

// Whether the line has digits where kPrefix has digits, and the same characters elsewhere, except
// the letter.
bool has_prefix(std::string_view line) {
  if (line.size() < kPrefix.size() || std::string_view("IWEF").find(line[0]) == line.npos)
    return false;
  for (std::size_t i = 1; i < kPrefix.size(); ++i) {
    const bool digit = kPrefix[i] >= '0' && kPrefix[i] <= '9';
    if (digit ? line[i] < '0' || line[i] > '9' : line[i] != kPrefix[i]) return false;
  }
  return true;
}

// Removes the value since the last log point if it equals the value of the whole pass, as at each
// pass's first log point. end: the text after a value.
void drop_repeated(std::string& text, std::string_view of_pass, std::string_view current,
                   std::string_view end) {
  const std::size_t at = text.find(current);
  const std::size_t before = text.rfind(of_pass, at);
  if (at == text.npos || before == text.npos) return;
  const std::size_t begin = before + of_pass.size();
  const std::size_t again = at + current.size();
  const std::size_t until = std::min(text.find(end, again), text.size());
  const std::string_view all = text;
  if (all.substr(begin, at - begin) == all.substr(again, until - again)) text.erase(at, until - at);
}

}  // namespace

std::string shown_line(const std::string& line) {
  if (!has_prefix(line)) return line;
  const std::string_view text(line);
  const std::size_t name_end = text.find("] ", kPrefix.size());
  const std::size_t space = text.find(' ', kPrefix.size());
  if (name_end == text.npos || space < name_end) return line;
  std::string shown =
      fmt::format("{} {}{}", text.substr(6, 8), level_text(text[0]), text.substr(name_end + 2));
  drop_repeated(shown, " AvgCost=", " CurrentCost=", " ");
  drop_repeated(shown, " Eval: ", " CurrentEval: ", "\n");
  return shown;
}

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
