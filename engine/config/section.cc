#include "engine/config/section.h"

#include <algorithm>

namespace paddle::config {

std::string line_of(std::string_view text, std::size_t number) {
  for (std::size_t line = 1; line < number; ++line) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return "";
    text.remove_prefix(end + 1);
  }
  std::string line(text.substr(0, text.find_first_of("\r\n")));
  std::ranges::replace(line, '\t', ' ');
  return line;
}

std::string section_at(std::string_view text, std::size_t line) {
  std::string section;
  for (std::size_t number = 1; number <= line && !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1);
    const std::string_view head = text.substr(0, text.find_first_of("]#\r\n"));
    const std::size_t name = head.find_first_not_of("[ ");
    if (head.starts_with('[') && name != head.npos) section = head.substr(name);
    text.remove_prefix(end + 1);
  }
  return section;
}

std::string section_set_by(std::string_view source) {
  constexpr std::string_view kSet = "--set ";
  if (!source.starts_with(kSet)) return "";
  source.remove_prefix(kSet.size());
  return std::string(source.substr(0, source.find_first_of(".=")));
}

std::string with_quoted_value(std::string_view override_text) {
  const std::size_t value = std::min(override_text.find('='), override_text.size() - 1) + 1;
  std::string quoted(override_text.substr(0, value));
  quoted += '"';
  for (const char c : override_text.substr(value)) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

std::string_view outermost(std::string_view section) {
  return section.substr(0, section.find('.'));
}

std::string anchor_of(std::string_view section) {
  std::string anchor(section);
  std::erase(anchor, '.');
  return anchor;
}

}  // namespace paddle::config
