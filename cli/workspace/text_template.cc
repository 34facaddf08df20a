#include "cli/workspace/text_template.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"

namespace paddle::cli {

Result<std::string> fill_words(std::string_view file, std::string_view text,
                               const TemplateValues& values) {
  std::string out;
  for (std::ptrdiff_t line = 1;;) {
    const std::size_t begin = text.find("{{");
    out += text.substr(0, begin);
    if (begin == text.npos) return out;
    line += std::ranges::count(text.substr(0, begin), '\n');
    const std::size_t end = text.find("}}", begin);
    const std::string_view word = end == text.npos ? "" : text.substr(begin + 2, end - begin - 2);
    const auto found = std::ranges::find(values, word, &TemplateValues::value_type::first);
    if (found == values.end()) {
      return Error{Errc::kUsage,
                   fmt::format("{}:{}: {{{{{}}}}} means nothing", file, line, escape_control(word)),
                   "the words are those of the template that came with paddlectl"};
    }
    out += found->second;
    text.remove_prefix(end + 2);
  }
}

}  // namespace paddle::cli
