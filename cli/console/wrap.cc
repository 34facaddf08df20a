#include "cli/console/wrap.h"

#include <algorithm>

#include "cli/console/console.h"

namespace paddle::cli {
namespace {

// The end of the word that begins at `begin`.
std::size_t end_of_word(std::string_view line, std::size_t begin, std::size_t room) {
  const std::size_t word = std::min(line.find(' ', begin), line.size());
  if (!line.substr(begin).starts_with("paddlectl ")) return word;
  const std::size_t command = std::min(line.find_first_of(";,)", begin), line.size());
  return display_width(line.substr(begin, command - begin)) <= room ? command : word;
}

std::size_t indent_of(std::string_view line, std::size_t columns) {
  const std::size_t first = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t gap = line.find("  ", first);
  if (gap == line.npos) return first;
  const std::size_t second = line.find_first_not_of(' ', gap);
  return second <= columns / 2 ? second : first;
}

}  // namespace

std::string wrapped_line(std::string_view line, std::size_t columns, std::size_t indent) {
  if (columns == 0 || display_width(line) <= columns) return std::string(line);
  std::string text;
  std::size_t used = 0;  // cells of the row
  bool has_word = false;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t begin = std::min(line.find_first_not_of(' ', at), line.size());
    if (begin == line.size()) break;
    const std::size_t end = end_of_word(line, begin, columns - std::min(indent, columns));
    const std::size_t width = display_width(line.substr(begin, end - begin));
    const bool fits = used + (begin - at) + width <= columns;
    if (has_word && !fits) {
      text += '\n' + std::string(indent, ' ');
      used = indent;
    } else {
      text += line.substr(at, begin - at);
      used += begin - at;
    }
    text += line.substr(begin, end - begin);
    used += width;
    has_word = true;
    at = end;
  }
  return text;
}

std::string wrapped(std::string_view text, std::size_t columns) {
  std::string out;
  for (;;) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    out += wrapped_line(line, columns, indent_of(line, columns));
    if (end == text.npos) return out;
    out += '\n';
    text.remove_prefix(end + 1);
  }
}

std::string overwritten(std::string_view text) {
  std::string shown;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    while (line.ends_with('\r')) line.remove_suffix(1);
    shown += line.substr(line.rfind('\r') + 1);
    if (end < text.size()) shown += '\n';
    begin = end + 1;
  }
  return shown;
}

}  // namespace paddle::cli
